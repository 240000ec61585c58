"""A folder of what would mend the findings of a reconciliation, and the commands that use it."""

from pathlib import Path
from shlex import quote
from typing import BinaryIO, NamedTuple, Self

from tallgrass.cli.text import json_line
from tallgrass.inventory.listed import listed_line
from tallgrass.inventory.mending import Mend, mend_of
from tallgrass.inventory.reconcile import Finding
from tallgrass.replay.selection import NAMES_MAX, Purpose, Selection
from tallgrass.replay.selection_file import render_selection

FINDINGS = "findings.jsonl"
OBJECTS = "objects.jsonl"


class _Sort(NamedTuple):
    """What the units of one selection have in common."""

    mend: Mend
    error_code: str | None


class PlanFolder:
    """Takes findings one by one and writes what mends them; memory does not grow with them."""

    def __init__(self, folder: Path, *, dataset: str, env: str, window: tuple[str, str]) -> None:
        self._folder = folder
        self._dataset = dataset
        self._env = env
        self._window = window
        self._objects = 0
        #: Of failed units, one list a code: who replays a code says that its cause is mended.
        self._units: dict[_Sort, list[str]] = {}
        self._selections: list[tuple[_Sort, str]] = []
        self._files: dict[str, BinaryIO] = {}

    def __enter__(self) -> Self:
        self._files = {name: (self._folder / name).open("wb") for name in (FINDINGS, OBJECTS)}
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def take(self, finding: Finding) -> None:
        """Write a finding, and what would mend it."""
        self._files[FINDINGS].write(json_line(finding.document()))
        mend = mend_of(finding)
        if finding.listed is not None:
            self._files[OBJECTS].write(f"{listed_line(finding.listed)}\n".encode())
            self._objects += 1
        elif mend is not Mend.PERSON and finding.wal_id is not None:
            sort = _Sort(mend, finding.error_code if mend is Mend.REPLAY else None)
            units = self._units.setdefault(sort, [])
            units.append(finding.wal_id)
            if len(units) == NAMES_MAX:
                self._write_selection(sort)

    def finish(self) -> None:
        """Write what is left."""
        for sort in list(self._units):
            self._write_selection(sort)

    def commands(self, place: Path) -> list[str]:
        """Return the commands that mend, with the folder in the place where it will be."""
        since, until = self._window
        found = []
        if self._objects:
            found.append(
                f"tallgrass backfill --dataset {self._dataset} --since {since} --until {until} "
                f"--listing {quote(str(place / OBJECTS))}"
            )
        for (mend, _code), name in self._selections:
            command = f"tallgrass replay --selection-file {quote(str(place / name))}"
            if mend is Mend.REPLAY:
                found.append(f"{command} --reason incident --incident REF")
            else:
                force = " --force" if mend is Mend.REBUILD else ""
                plan = quote(str((place / name).with_suffix(".plan")))
                found.append(f"{command}{force} --reason incident --dry-run --plan-out {plan}")
        return found

    def _write_selection(self, sort: _Sort) -> None:
        units = self._units.pop(sort, [])
        if not units:
            return
        mend, code = sort
        number = 1 + sum(each == sort for each, _ in self._selections)
        name = f"{mend.value}{'' if code is None else f'-{code}'}-{number}.yaml"
        selection = Selection(
            datasets=(self._dataset,),
            wal_ids=tuple(units),
            # Without its name, a code that is not retried by itself would be left alone.
            error_codes=() if code is None else (code,),
            purpose=Purpose.FAILED_ONLY if mend is Mend.REPLAY else Purpose.REPAIR,
        )
        text = render_selection(selection, env=self._env, reason=None)
        (self._folder / name).write_text(text, encoding="utf-8")
        self._selections.append((sort, name))
