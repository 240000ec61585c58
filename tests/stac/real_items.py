"""Items of whole objects, read as a worker reads them and made by the chain's own operators."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tallgrass.ledger.rules import LedgerRules
from tallgrass.operators.trial import Trial, try_unit
from tests.support.placed_objects import place_object

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.evidence.hdf5_children import Hdf5Children


def tried(folder: Path, place: str, data: bytes, children: Hdf5Children | None = None) -> Trial:
    """Put an object at bucket and key into a folder; return what the operators say of it."""
    match, made, answer = place_object(folder, place, data, children)
    return try_unit(made, match, answer, LedgerRules())


def item_of(folder: Path, place: str, data: bytes, children: Hdf5Children | None = None) -> Any:
    """Return the item of an object that passes all checks."""
    trial = tried(folder, place, data, children)
    assert trial.item is not None, (trial.integrity.issues, trial.metadata.issues)
    assert (trial.integrity.issues, trial.metadata.issues) == ((), ())
    return json.loads(trial.item)
