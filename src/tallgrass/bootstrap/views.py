"""Types that stores return, offered to modules that may not import storage."""

from tallgrass.storage.catalog_reader import CatalogView, ProjectionLag
from tallgrass.storage.health import Health
from tallgrass.storage.ledger_reader import Annotation, HistoryEvent, LedgerStats

__all__ = ["Annotation", "CatalogView", "Health", "HistoryEvent", "LedgerStats", "ProjectionLag"]
