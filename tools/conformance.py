"""Report which requirements the last test run showed.

A requirement is covered when a test that carries its id passed and none failed. It fails the
build when a switched-on document misses one, or when a requirement that only a planted fault can
prove is covered without one. Usage: `python -m tools.conformance [--results FILE]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tools.conformance_list import (
    DOCUMENTS,
    LIST_PATH,
    ROOT,
    ConformanceList,
    Requirement,
    load_conformance_list,
)
from tools.fault_list import FAULTS_PATH, Fault, carries, load_faults

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS_PATH = ROOT / "build" / "conformance-results.json"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Node ids of the tests that carry one id, by what came of them."""

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def covers(self) -> bool:
        """At least one test passed and none failed; a skip covers nothing."""
        return bool(self.passed) and not self.failed


@dataclass(kw_only=True)
class DocumentReport:
    """Each id of one document in exactly one of four places."""

    document: str
    covered: list[Requirement] = field(default_factory=list)
    planned: list[Requirement] = field(default_factory=list)
    waived: list[Requirement] = field(default_factory=list)
    missing: list[Requirement] = field(default_factory=list)

    def line(self) -> str:
        """Return the document's counts as one line."""
        parts = (self.covered, self.planned, self.waived, self.missing)
        names = ("covered", "planned", "waived", "missing")
        counts = ", ".join(f"{len(part)} {name}" for part, name in zip(parts, names, strict=True))
        return f"{self.document}: {sum(map(len, parts))} ids, {counts}"


def load_results(path: Path) -> dict[str, Outcome]:
    """Read what the test run wrote."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    return {
        requirement_id: Outcome(
            passed=tuple(found["passed"]),
            failed=tuple(found["failed"]),
            skipped=tuple(found["skipped"]),
        )
        for requirement_id, found in raw["ids"].items()
    }


def report(requirements: ConformanceList, results: dict[str, Outcome]) -> list[DocumentReport]:
    """Sort each requirement into covered, planned, waived or missing; covered goes first."""
    documents = {name: DocumentReport(document=name) for name in DOCUMENTS}
    for requirement in requirements.requirements.values():
        document = documents[requirement.document]
        outcome = results.get(requirement.id, Outcome())
        # A failing test takes precedence over a plan: what is claimed must hold.
        if outcome.covers:
            document.covered.append(requirement)
        elif outcome.failed:
            document.missing.append(requirement)
        elif requirement.planned:
            document.planned.append(requirement)
        elif requirement.waived:
            document.waived.append(requirement)
        else:
            document.missing.append(requirement)
    return list(documents.values())


def unproved(
    documents: Sequence[DocumentReport], results: dict[str, Outcome], faults: Sequence[Fault]
) -> list[Requirement]:
    """Return covered requirements that need a planted fault and have none.

    A fault counts for an id that it lists, if one of its tests carried the id and passed.
    """
    return [
        requirement
        for document in documents
        for requirement in document.covered
        if requirement.needs_fault
        and not any(_proves(fault, requirement.id, results[requirement.id]) for fault in faults)
    ]


def _proves(fault: Fault, requirement_id: str, outcome: Outcome) -> bool:
    return requirement_id in fault.ids and any(
        carries(test, node_id) for test in fault.tests for node_id in outcome.passed
    )


def _print_findings(title: str, requirements: Sequence[Requirement]) -> None:
    if requirements:
        print(f"\n{title}")
        for requirement in requirements:
            kinds = "".join(sorted(requirement.kinds))
            print(f"  {requirement.id:<9} [{kinds}] {requirement.requirement}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools.conformance", description=__doc__)
    parser.add_argument("--list", type=Path, default=LIST_PATH, help="the requirements")
    parser.add_argument("--results", type=Path, default=RESULTS_PATH, help="what a test run wrote")
    parser.add_argument("--faults", type=Path, default=FAULTS_PATH, help="the planted faults")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; 0 if nothing is missing and nothing unproved."""
    arguments = _arguments(argv)
    if not arguments.results.is_file():
        print(f"No results at {arguments.results}: run `make conformance`.", file=sys.stderr)
        return 1
    requirements = load_conformance_list(arguments.list)
    results = load_results(arguments.results)
    documents = report(requirements, results)
    for document in documents:
        print(document.line())
    missing = [
        requirement
        for document in documents
        if document.document in requirements.switched_on
        for requirement in document.missing
    ]
    without_fault = unproved(documents, results, load_faults(arguments.faults))
    _print_findings("Missing: no passing test carries these ids, or one failed.", missing)
    _print_findings("Unproved: no fault in tests/faults.toml backs their tests.", without_fault)
    return 1 if missing or without_fault else 0


if __name__ == "__main__":
    sys.exit(main())
