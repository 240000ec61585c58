"""The parts of docs/reference/conformance.md: every requirement and the tests that show it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tools.conformance_list import DOCUMENTS, Requirement, load_conformance_list
from tools.fault_list import load_faults
from tools.marked_tests import ids_to_tests

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What each document is about.
TITLES = {
    "WAL": "ledger record",
    "SM": "state machine",
    "RP": "replay",
    "OB": "transactional outbox",
    "NR": "reliable nodes",
    "C": "decisions where these disagree or are silent",
}
#: How a test shows a requirement; the order is that of the page.
KIND_WORDS = {
    "U": "example",
    "P": "property",
    "X": "crash or fault",
    "C": "concurrency",
    "I": "integration",
    "G": "golden bytes",
    "S": "static",
}


def counts() -> str:
    """Return how many requirements each document has, and how many tests and faults show them."""
    tests = ids_to_tests()
    rows = []
    for document in DOCUMENTS:
        ids = [requirement.id for requirement in _requirements(document)]
        shown = {test for each in ids for test in tests.get(each, ())}
        waived = sum(bool(requirement.waived) for requirement in _requirements(document))
        faults = sum(bool(set(fault.ids) & set(ids)) for fault in load_faults())
        rows.append((document, TITLES[document], len(ids), waived, len(shown), faults))
    head = "| document | about | requirements | waived | tests | planted faults |\n"
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |\n" for row in rows]
    return "".join([head, "| --- | --- | ---: | ---: | ---: | ---: |\n", *lines])


def document_part(document: str) -> str:
    """Return the requirements of one document, each with its tests."""
    tests = ids_to_tests()
    faults = Counter(each for fault in load_faults() for each in fault.ids)
    return "\n".join(
        _entry(requirement, tests.get(requirement.id, []), faults[requirement.id])
        for requirement in _requirements(document)
    )


def _entry(requirement: Requirement, tests: list[str], faults: int) -> str:
    kinds = ", ".join(word for kind, word in KIND_WORDS.items() if kind in requirement.kinds)
    proved = f"; planted faults: {faults}" if faults else ""
    lines = [f"**{requirement.id}** {requirement.requirement} *({kinds}{proved})*", ""]
    if requirement.waived:
        lines += [f"- Waived: {requirement.waived}"]
    if requirement.planned:
        lines += [f"- Planned with {requirement.planned}"]
    return "\n".join([*lines, *(f"- `{test}`" for test in tests), ""])


def _requirements(document: str) -> Iterator[Requirement]:
    for requirement in load_conformance_list().requirements.values():
        if requirement.document == document:
            yield requirement
