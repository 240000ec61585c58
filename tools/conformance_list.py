"""The list of requirements, `docs/reference/conformance.toml`, as checked values."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST_PATH = ROOT / "docs" / "reference" / "conformance.toml"

#: The documents in the order of the report.
DOCUMENTS = ("WAL", "SM", "RP", "OB", "NR", "C")

#: Unit, property, crash, concurrency, integration, golden bytes, static.
KINDS = frozenset("UPXCIGS")

#: A test of these kinds can pass for the wrong reason, so a planted fault must make it fail.
KINDS_TO_PROVE = frozenset("PXC")

REQUIRED_KEYS = frozenset({"id", "document", "kinds", "requirement"})
OPTIONAL_KEYS = frozenset({"planned", "waived"})


class ConformanceListError(ValueError):
    """The list of requirements is not well-formed; the message names the entry."""


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One requirement; at most one of `planned` and `waived` is set."""

    id: str
    document: str
    kinds: frozenset[str]
    requirement: str
    #: The part of the system that it waits for.
    planned: str | None = None
    #: Why it will never be built, and what stands in its place.
    waived: str | None = None

    @property
    def needs_fault(self) -> bool:
        """Whether a test of it counts only together with a planted fault."""
        return bool(self.kinds & KINDS_TO_PROVE)


@dataclass(frozen=True, kw_only=True)
class ConformanceList:
    """All requirements by id, in the order of the file, and the documents that must be complete."""

    switched_on: tuple[str, ...]
    requirements: dict[str, Requirement]


@functools.cache
def load_conformance_list(path: Path = LIST_PATH) -> ConformanceList:
    """Read and check the list."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    switched_on = tuple(raw.get("switched_on", ()))
    unknown = set(switched_on) - set(DOCUMENTS)
    if unknown:
        raise ConformanceListError(f"switched_on names unknown documents: {sorted(unknown)}")
    requirements: dict[str, Requirement] = {}
    for entry in raw.get("requirement", ()):
        requirement = _requirement(entry)
        if requirement.id in requirements:
            raise ConformanceListError(f"{requirement.id}: listed twice")
        requirements[requirement.id] = requirement
    return ConformanceList(switched_on=switched_on, requirements=requirements)


def _requirement(entry: dict[str, Any]) -> Requirement:
    name = entry.get("id", "entry without id")
    keys = set(entry)
    if not keys >= REQUIRED_KEYS or keys - REQUIRED_KEYS - OPTIONAL_KEYS:
        raise ConformanceListError(f"{name}: has the keys {sorted(keys)}")
    requirement = Requirement(**{**entry, "kinds": frozenset(entry["kinds"])})
    if requirement.document not in DOCUMENTS or not name.startswith(f"{requirement.document}-"):
        raise ConformanceListError(f"{name}: does not belong to document {requirement.document}")
    if not requirement.kinds or requirement.kinds - KINDS:
        raise ConformanceListError(f"{name}: kinds are {sorted(requirement.kinds)}")
    if requirement.planned and requirement.waived:
        raise ConformanceListError(f"{name}: is both planned and waived")
    texts = [entry[key] for key in ("requirement", "planned", "waived") if key in entry]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise ConformanceListError(f"{name}: has an empty text")
    if requirement.waived and "instead" not in requirement.waived.lower():
        raise ConformanceListError(f"{name}: the waiver does not say what holds instead")
    return requirement
