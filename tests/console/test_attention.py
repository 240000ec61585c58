"""What asks for a person, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.overview import read_overview
from tallgrass.console.overview import LINKS
from tallgrass.views.attention import Level, Subject, attention
from tests.cli.command import fill

if TYPE_CHECKING:
    from tests.support.backends import Backend


def test_the_worst_comes_first(backend: Backend) -> None:
    """By hand, of the ten units: alarms, then what failed, was held or is stale, then notes."""
    fill(backend)
    stores = backend.open()
    config = backend.config()
    found = attention(read_overview(config, stores, open_catalogue(config)))
    levels = [each.level for each in found]
    assert levels == sorted(levels, key=list(Level).index)
    told = {each.subject: each.text for each in found if each.level is not Level.ALARM}
    assert told[Subject.FAILED] == "2 units failed"
    assert told[Subject.QUARANTINED] == "1 unit quarantined"
    assert told[Subject.STALE] == "1 unit stale"
    assert told[Subject.SWITCHES] == "ingest of nexrad-l2 is switched off: maintenance"


def test_nothing_is_said_where_nothing_is_wrong(backend: Backend) -> None:
    """An empty ledger asks for nobody."""
    stores = backend.open()
    config = backend.config()
    assert attention(read_overview(config, stores, open_catalogue(config))) == []


def test_each_subject_leads_somewhere() -> None:
    """One click from what is wrong to where it is seen."""
    assert set(LINKS) == set(Subject)
