"""What stores answer with, for those who may name it and may not reach into storage."""

from tallgrass.storage.catalog_reader import CatalogView, ProjectionLag
from tallgrass.storage.health import Health
from tallgrass.storage.ledger_reader import Annotation, HistoryEvent, LedgerStats

__all__ = ["Annotation", "CatalogView", "Health", "HistoryEvent", "LedgerStats", "ProjectionLag"]
