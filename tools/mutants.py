"""Change the code and see whether a test notices: `python -m tools.mutants [--only GROUP]`.

tests/mutants.toml names groups of modules with the tests that guard them. Each small change of the
code's meaning (a mutant) must make a test fail, or never end. What survives is listed in
build/mutants.txt; a mutant that changes nothing anybody could see is listed with the reason.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tools.mutant_session import KILLED, SOURCE, TIMEOUT
from tools.reliability import ROOT, publish

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LIST = ROOT / "tests" / "mutants.toml"
REPORT = ROOT / "build" / "mutants.txt"
#: The least share of all mutants that tests must notice.
SCORE_MIN = 0.85


class MutantListError(Exception):
    """The list names something that is not there."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Modules, and the tests that guard them."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Equivalent:
    """A mutant that nobody can notice, and why."""

    module: str
    #: The line as it stands in the module, and the change.
    code: str
    what: str
    reason: str


@dataclass(kw_only=True)
class Tally:
    """What became of the mutants of one module."""

    counts: Counter[str] = field(default_factory=Counter)

    @property
    def noticed(self) -> int:
        """Mutants that made a test fail, or never end."""
        return self.counts[KILLED] + self.counts[TIMEOUT]

    @property
    def total(self) -> int:
        """All mutants but those that nobody can notice."""
        return self.counts.total() - self.counts["equivalent"]


def load_list(file: Path = LIST) -> tuple[list[Group], list[Equivalent]]:
    """Read the list; what it names must be there."""
    read = tomllib.loads(file.read_text(encoding="utf-8"))
    groups = [
        Group(name=name, modules=tuple(each["modules"]), tests=tuple(each["tests"]))
        for name, each in read["groups"].items()
    ]
    equivalents = [Equivalent(**each) for each in read.get("equivalent", [])]
    for group in groups:
        gone = [name for name in group.modules if not (SOURCE / name).is_file()]
        gone += [name for name in group.tests if not (ROOT / name).exists()]
        if gone:
            raise MutantListError(f"{group.name}: there is no {', '.join(gone)}")
    for each in equivalents:
        if each.code not in map(str.strip, _lines(each.module)):
            raise MutantListError(f"{each.module} has no line {each.code!r}")
        if not each.reason.strip():
            raise MutantListError(f"{each.module}: {each.what} has no reason")
    return groups, equivalents


def score(tallies: Sequence[Tally]) -> float:
    """Return the share of mutants that were noticed."""
    total = sum(tally.total for tally in tallies)
    return sum(tally.noticed for tally in tallies) / total if total else 0.0


def count_result(
    tally: Tally, result: dict[str, Any], equivalents: Sequence[Equivalent]
) -> str | None:
    """Add what became of one mutant; return what there is to say of one that lives."""
    module, line, what = result["module"], result["line"], result["what"]
    code = _lines(module)[line - 1].strip()
    verdict, survivor = result["verdict"], None
    if verdict not in {KILLED, TIMEOUT}:
        if any((each.module, each.code, each.what) == (module, code, what) for each in equivalents):
            verdict = "equivalent"
        else:
            survivor = f"{module}:{line}: {verdict}: {what}    | {code}"
    tally.counts[verdict] += 1
    return survivor


def play(group: Group, jobs: int, *, outside: bool) -> Iterator[dict[str, Any]]:
    """Play the mutants of a group in a process of their own."""
    order = {
        "modules": group.modules, "tests": group.tests, "jobs": jobs, "outside": outside,
    }  # fmt: skip
    command = [sys.executable, "-m", "tools.mutant_session", json.dumps(order)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith("{"):
                yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"{group.name}: the session ended with {process.returncode}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Play all groups; 1 if too many mutants survive."""
    groups, equivalents = load_list()
    options = _options(groups, arguments)
    tallies: dict[str, Tally] = {}
    began = time.monotonic()
    REPORT.parent.mkdir(exist_ok=True)
    with REPORT.open("w", encoding="utf-8") as report:
        for group in groups:
            if options.only and group.name not in options.only:
                continue
            for outside in (False, True):
                for result in play(group, options.jobs, outside=outside):
                    tally = tallies.setdefault(result["module"], Tally())
                    # Line by line: whoever is in a hurry can read on while it runs.
                    if survivor := count_result(tally, result, equivalents):
                        report.write(f"{survivor}\n")
                        report.flush()
            for module in group.modules:
                print(_told(module, tallies.get(module, Tally())), flush=True)
    found = score(list(tallies.values()))
    total = sum(tally.total for tally in tallies.values())
    print(f"{total:,} mutants, {found:.1%} noticed ({time.monotonic() - began:.0f} s;"
          f" survivors: {REPORT.relative_to(ROOT)})")  # fmt: skip
    publish("mutants", {**_figures(tallies), "all": f"{found:.1%} of {total:,}"})
    return 0 if found >= SCORE_MIN else 1


def _options(groups: Sequence[Group], arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    names = [group.name for group in groups]
    parser.add_argument("--only", choices=names, action="append", help="one group (all)")
    parser.add_argument("--jobs", type=int, default=2, help="at the same time (2)")
    return parser.parse_args(arguments)


def _figures(tallies: dict[str, Tally]) -> dict[str, str]:
    return {
        f"`{module}`": f"{score([tally]):.1%} of {tally.total:,}"
        + (f", {tally.counts['equivalent']} equivalent" if tally.counts["equivalent"] else "")
        for module, tally in tallies.items()
    }


def _told(module: str, tally: Tally) -> str:
    counts = ", ".join(f"{number} {verdict}" for verdict, number in sorted(tally.counts.items()))
    return f"  {module:<32} {score([tally]):6.1%}  {counts}"


def _lines(module: str) -> list[str]:
    return (SOURCE / module).read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    sys.exit(main())
