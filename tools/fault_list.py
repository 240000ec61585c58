"""The list of faults to plant, `tests/faults.toml`, as checked values, and how one is planted."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.conformance_list import ROOT

FAULTS_PATH = ROOT / "tests" / "faults.toml"
CHECKSUMS_NAME = "SHA256SUMS"
KEYS = frozenset({"name", "file", "find", "replace", "test", "ids", "why"})


class FaultListError(ValueError):
    """The list of faults is wrong, or a fault no longer fits the code; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One exact replacement in one file, and the tests that must fail with it."""

    name: str
    #: Relative to the checkout; below `src/`.
    file: str
    find: str
    replace: str
    #: Pytest node ids.
    tests: tuple[str, ...]
    #: Requirements whose tests this fault puts to the proof.
    ids: tuple[str, ...]
    why: str


def load_faults(path: Path = FAULTS_PATH) -> list[Fault]:
    """Read and check the list."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    faults = [_fault(entry) for entry in raw.get("fault", ())]
    names = [fault.name for fault in faults]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise FaultListError(f"names used twice: {sorted(doubled)}")
    return faults


def _fault(entry: dict[str, Any]) -> Fault:
    name = entry.get("name", "fault without name")
    if set(entry) != KEYS:
        raise FaultListError(f"{name}: has the keys {sorted(entry)}, needs {sorted(KEYS)}")
    tests = (entry["test"],) if isinstance(entry["test"], str) else tuple(entry["test"])
    if not tests or not all("::" in test for test in tests):
        raise FaultListError(f"{name}: test must name functions (path::name), not whole files")
    if not entry["file"].startswith("src/") or ".." in Path(entry["file"]).parts:
        raise FaultListError(f"{name}: file must be below src/")
    if not entry["find"] or entry["find"] == entry["replace"]:
        raise FaultListError(f"{name}: find must be a text that replace changes")
    return Fault(
        name=name,
        file=entry["file"],
        find=entry["find"],
        replace=entry["replace"],
        tests=tests,
        ids=tuple(entry["ids"]),
        why=entry["why"],
    )


def carries(test: str, node_id: str) -> bool:
    """Whether the node id is the named test or one of its parameter sets or members."""
    return node_id == test or node_id.startswith((f"{test}[", f"{test}::"))


def planted_text(fault: Fault, root: Path) -> str:
    """Return the file's text with the fault in it; the text to find occurs exactly once."""
    path = root / fault.file
    if not path.is_file():
        raise FaultListError(f"{fault.name}: there is no {fault.file}")
    text = path.read_text(encoding="utf-8")
    count = text.count(fault.find)
    if count != 1:
        raise FaultListError(f"{fault.name}: the text to find occurs {count} times in {fault.file}")
    return text.replace(fault.find, fault.replace)


def plant(fault: Fault, root: Path) -> None:
    """Plant the fault below `root`, a copy of the checkout's `src`.

    Where a checksum file covers the changed file, its line is renewed: the test is to see the
    fault, not the check that keeps shipped files unedited.
    """
    text = planted_text(fault, root)
    path = root / fault.file
    path.write_text(text, encoding="utf-8")
    for folder in path.parents:
        if folder == root:
            break
        _renew_checksum(folder / CHECKSUMS_NAME, path)


def _renew_checksum(checksums: Path, changed: Path) -> None:
    if not checksums.is_file():
        return
    name = changed.relative_to(checksums.parent).as_posix()
    digest = hashlib.sha256(changed.read_bytes()).hexdigest()
    lines = checksums.read_text(encoding="utf-8").splitlines()
    renewed = [f"{digest}  {name}" if line.split()[1:] == [name] else line for line in lines]
    checksums.write_text("\n".join(renewed) + "\n", encoding="utf-8")
