from collections import Counter
from pathlib import Path

import pytest

from tools.conformance_list import (
    DOCUMENTS,
    ROOT,
    ConformanceListError,
    load_conformance_list,
)

COUNTS = {"WAL": 75, "SM": 60, "RP": 52, "OB": 45, "NR": 63, "C": 54}

ENTRY = """
[[requirement]]
id = "WAL-1.1"
document = "WAL"
kinds = ["U"]
requirement = "Something holds."
"""


def write(folder: Path, text: str) -> Path:
    """Write a list to a file of its own."""
    path = folder / "conformance.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_each_document_is_complete() -> None:
    """No requirement can drop out of the list unseen."""
    requirements = load_conformance_list().requirements.values()
    assert Counter(each.document for each in requirements) == COUNTS
    assert tuple(COUNTS) == DOCUMENTS


@pytest.mark.conformance("RP-1.4")
def test_the_build_reports_every_document_that_is_built() -> None:
    """A clause that loses its test fails the build, that of the continuous integration too."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ntest:")[2]
    recipe = recipe.partition("\n\n")[0]
    assert "python -m tools.conformance --results $(RESULTS) || status=1" in recipe
    assert "exec make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert set(load_conformance_list().switched_on) == {"WAL", "SM", "RP", "OB", "NR", "C"}


def test_each_requirement_is_one_line() -> None:
    """A requirement is one sentence that fits a report."""
    for each in load_conformance_list().requirements.values():
        assert "\n" not in each.requirement
        assert len(each.requirement) <= 130


def test_each_requirement_says_something_of_its_own() -> None:
    """No text stands for two requirements."""
    texts = Counter(each.requirement for each in load_conformance_list().requirements.values())
    assert [text for text, count in texts.items() if count > 1] == []


def test_a_plain_entry_is_read(tmp_path: Path) -> None:
    """An entry without plan or waiver has neither."""
    requirements = load_conformance_list(write(tmp_path, ENTRY))
    entry = requirements.requirements["WAL-1.1"]
    assert (entry.kinds, entry.planned, entry.waived) == (frozenset("U"), None, None)
    assert not entry.needs_fault


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('switched_on = ["XY"]', "unknown documents"),
        (ENTRY + ENTRY, "listed twice"),
        (ENTRY + 'planed = "outbox"', "has the keys"),
        (ENTRY.replace('requirement = "Something holds."', ""), "has the keys"),
        (ENTRY.replace('["U"]', '["Z"]'), "kinds are"),
        (ENTRY.replace('["U"]', "[]"), "kinds are"),
        (ENTRY.replace('document = "WAL"', 'document = "SM"'), "does not belong"),
        (ENTRY + 'planned = "outbox"\nwaived = "never"', "both planned and waived"),
        (ENTRY + 'waived = " "', "empty text"),
        (ENTRY + 'waived = "nobody wants it"', "does not say what holds instead"),
    ],
)
def test_a_wrong_list_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """Each mistake in the list stops its reader with a message that names it."""
    with pytest.raises(ConformanceListError, match=message):
        load_conformance_list(write(tmp_path, text))
