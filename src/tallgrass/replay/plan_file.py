"""A plan that was written: read back as it was, or refused."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tallgrass.errors import InvalidInput
from tallgrass.governance.policy import ReplayMode
from tallgrass.intake.strict_json import load_strict
from tallgrass.ledger.vocabulary import Intent
from tallgrass.replay.guards import Caps
from tallgrass.replay.plan import KIND, PlanAction, PlanHeader, PlannedAction
from tallgrass.replay.selection_file import API_VERSION, selection_from


@dataclass(slots=True)
class PlanReading:
    """A plan that is read line by line; hash and counts are whole once all rows were taken."""

    lines: Iterable[bytes]
    by_action: Counter[str] = field(default_factory=Counter)
    _digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    @property
    def sha256(self) -> str:
        """The hash of the lines that were read."""
        return self._digest.hexdigest()

    def open(self) -> tuple[PlanHeader, Iterator[PlannedAction]]:
        """Return the header, and the rows to come; a row out of order or form is refused."""
        lines = iter(self.lines)
        first = next(lines, b"")
        self._digest.update(first)
        return read_header(first), self._rows(lines)

    def _rows(self, lines: Iterator[bytes]) -> Iterator[PlannedAction]:
        before = ""
        for number, line in enumerate(lines, start=2):
            self._digest.update(line)
            row = read_row(line, number)
            if row.wal_id <= before:
                raise _invalid(f"line {number}: {row.wal_id} is not in order")
            before = row.wal_id
            self.by_action[row.action] += 1
            yield row


def read_header(line: bytes) -> PlanHeader:
    """Read the first line of a plan; it must be exactly as a plan writes it."""
    try:
        value = load_strict(line)
        if (value["apiVersion"], value["kind"]) != (API_VERSION, KIND):
            raise _invalid("line 1: not the header of a plan")
        header = PlanHeader(
            replay_run_id=value["replay_run_id"],
            env=value["env"],
            mode=ReplayMode(value["mode"]),
            intent=Intent(value["intent"]),
            reason=value["reason"],
            selection=selection_from(value["selection"]),
            code_version=value["code_version"],
            config_version=value["config_version"],
            approvals_needed=value["approvals_needed"],
            caps=Caps(**value["caps"]),
            incident_ref=value["incident_ref"],
            change_ref=value["change_ref"],
            policy_ref=value["policy_ref"],
            expected=tuple(value["expected"]),
            forced=value["forced"],
            allow_downgrade=value["allow_downgrade"],
        )
    except (KeyError, TypeError, ValueError, InvalidInput) as exc:
        raise _invalid("line 1: not the header of a plan") from exc
    if header.line() != line:
        raise _invalid("line 1: not as the plan was written")
    return header


def read_row(line: bytes, number: int) -> PlannedAction:
    """Read one of the other lines."""
    try:
        value = load_strict(line)
        row = PlannedAction(
            value["wal_id"], value["version"], PlanAction(value["action"]), value.get("reason")
        )
        if row.line() != line or type(row.version) is not int or type(row.wal_id) is not str:
            raise _invalid(f"line {number}: not as the plan was written")
    except (KeyError, TypeError, ValueError, AttributeError, InvalidInput) as exc:
        raise _invalid(f"line {number}: not a row of a plan") from exc
    return row


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="plan_invalid")
