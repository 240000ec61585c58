"""The plan of a drain: a header, then one row a letter in order of message ids, as JSON Lines.

Its hash is the SHA-256 of those bytes. Nothing in it depends on the clock or on the order in which
the queue gave its letters out.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tallgrass.canonical_json import canonical_bytes
from tallgrass.errors import InvalidInput
from tallgrass.governance.policy import ReplayMode
from tallgrass.intake.strict_json import load_strict
from tallgrass.ledger.replay_reasons import DLQ_DRAIN
from tallgrass.replay.dead_letters import SENT, Cause, DrainAction, LetterFate
from tallgrass.replay.guards import Caps
from tallgrass.replay.selection import Selection
from tallgrass.replay.selection_file import API_VERSION, selection_from, spec_of

KIND = "DrainPlan"
#: What an approval of such a plan is given for; also the reason of its run.
PURPOSE = DLQ_DRAIN

#: A unit and the version at which it was planned; None: new to the ledger.
PlannedUnit = tuple[str, int | None]


class DrainRow(NamedTuple):
    """What is planned for one letter."""

    message_id: str
    body_sha256: str
    action: DrainAction
    units: tuple[PlannedUnit, ...] = ()
    #: Why it stays, goes away, or is sent though no unit of it failed.
    reason: str | None = None

    def line(self) -> bytes:
        """Return the row as a line of the plan."""
        value: dict[str, Any] = {
            "action": self.action.value,
            "body_sha256": self.body_sha256,
            "message_id": self.message_id,
            "units": [{"version": version, "wal_id": wal_id} for wal_id, version in self.units],
        }
        if self.reason is not None:
            value["reason"] = self.reason
        return canonical_bytes(value) + b"\n"


def row_of(message_id: str, body_sha256: str, fate: LetterFate) -> DrainRow:
    """Return the row of a letter whose fate is decided."""
    return DrainRow(message_id, body_sha256, fate.action, fate.versions, fate.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainHeader:
    """What a plan is for, what it was made with, and what its run needs."""

    replay_run_id: str
    env: str
    queue: str
    selection: Selection
    causes: tuple[Cause, ...]
    code_version: str
    config_version: str
    approvals_needed: int
    caps: Caps
    #: There were more letters than were looked at.
    truncated: bool = False

    def document(self) -> dict[str, Any]:
        """Return the header as a JSON value."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "purpose": PURPOSE,
            "replay_run_id": self.replay_run_id,
            "env": self.env,
            "mode": ReplayMode.DLQ.value,
            "reason": PURPOSE,
            "queue": self.queue,
            "selection": spec_of(self.selection),
            "causes": [cause.value for cause in self.causes],
            "code_version": self.code_version,
            "config_version": self.config_version,
            "approvals_needed": self.approvals_needed,
            "truncated": self.truncated,
            "caps": self.caps.document(),
        }

    def line(self) -> bytes:
        """Return the header as the first line of the plan."""
        return canonical_bytes(self.document()) + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    """A plan whole: it is bounded by what a queue lets out at a time."""

    header: DrainHeader
    rows: tuple[DrainRow, ...]

    def lines(self) -> Iterator[bytes]:
        """Yield the plan line by line."""
        yield self.header.line()
        for row in self.rows:
            yield row.line()

    @property
    def sha256(self) -> str:
        """The hash that an approval is bound to."""
        digest = hashlib.sha256()
        for line in self.lines():
            digest.update(line)
        return digest.hexdigest()

    @property
    def by_action(self) -> Counter[str]:
        """How many letters get which action."""
        return Counter(row.action.value for row in self.rows)

    @property
    def by_reason(self) -> Counter[str]:
        """Why letters are left."""
        return Counter(
            row.reason for row in self.rows if row.action is DrainAction.LEAVE and row.reason
        )


def capped(rows: Iterable[DrainRow], max_events: int, reason: str) -> Iterator[DrainRow]:
    """Bring rows into their order; those that would be sent beyond the cap are left."""
    sent = 0
    for row in sorted(rows, key=lambda row: row.message_id):
        if row.action in SENT:
            sent += 1
            if sent > max_events:
                yield row._replace(action=DrainAction.LEAVE, reason=reason)
                continue
        yield row


def is_drain_plan(line: bytes) -> bool:
    """Tell whether a first line is the header of a drain's plan, whole or not."""
    try:
        return bool(load_strict(line)["kind"] == KIND)
    except (KeyError, TypeError, InvalidInput):
        return False


def read_plan(lines: Iterable[bytes]) -> DrainPlan:
    """Read a plan that was written; it must be exactly as a plan writes it."""
    found = iter(lines)
    header = _read_header(next(found, b""))
    rows: list[DrainRow] = []
    for number, line in enumerate(found, start=2):
        row = _read_row(line, number)
        if rows and row.message_id <= rows[-1].message_id:
            raise _invalid(f"line {number}: {row.message_id} is not in order")
        rows.append(row)
    return DrainPlan(header=header, rows=tuple(rows))


def _read_header(line: bytes) -> DrainHeader:
    try:
        value = load_strict(line)
        if (value["apiVersion"], value["kind"]) != (API_VERSION, KIND):
            raise _invalid("line 1: not the header of a drain's plan")
        header = DrainHeader(
            replay_run_id=value["replay_run_id"],
            env=value["env"],
            queue=value["queue"],
            selection=selection_from(value["selection"]),
            causes=tuple(Cause(cause) for cause in value["causes"]),
            code_version=value["code_version"],
            config_version=value["config_version"],
            approvals_needed=value["approvals_needed"],
            caps=Caps(**value["caps"]),
            truncated=value["truncated"],
        )
        same = header.line() == line
    except (KeyError, TypeError, ValueError, AttributeError, InvalidInput) as exc:
        raise _invalid("line 1: not the header of a drain's plan") from exc
    if not same:
        raise _invalid("line 1: not as the plan was written")
    return header


def _read_row(line: bytes, number: int) -> DrainRow:
    try:
        value = load_strict(line)
        row = DrainRow(
            value["message_id"],
            value["body_sha256"],
            DrainAction(value["action"]),
            tuple((unit["wal_id"], unit["version"]) for unit in value["units"]),
            value.get("reason"),
        )
        same = row.line() == line and isinstance(row.message_id, str)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidInput) as exc:
        raise _invalid(f"line {number}: not a row of a drain's plan") from exc
    if not same:
        raise _invalid(f"line {number}: not as the plan was written")
    return row


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="plan_invalid")
