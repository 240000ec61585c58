"""Dead letters: what stands behind each, and what a drain does with it (pure).

The body of a letter is only a locator. It is read as ingest reads it; the units that it names are
looked up, and what the ledger knows of them decides. A letter is one thing: it goes back, goes
away, or stays as a whole.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tallgrass.canonical_json import sha256_hex
from tallgrass.error_codes import registry
from tallgrass.intake.message import ParsedMessage
from tallgrass.intake.poison import POISON_BYTES_MAX
from tallgrass.ledger.object_order import ObjectOrder, compare_objects, orders_listed
from tallgrass.ledger.receipt import Action, Known, at_limit, decide_receipt
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import IngestUnit, ObjectReference
from tallgrass.ledger.vocabulary import Status
from tallgrass.replay.plan import SkipReason, replays_code
from tallgrass.replay.selection import Selection


class Cause(StrEnum):
    """What kind of fault made a message die."""

    SCHEMA = "schema"
    CONNECTIVITY = "connectivity"
    GOVERNANCE = "governance"
    INFRA = "infra"
    INTEGRITY = "integrity"
    #: The ledger names no fault, or one that says nothing of its cause.
    UNKNOWN = "unknown"
    #: No unit can be made of the message.
    UNIDENTIFIED = "unidentified"


class DrainAction(StrEnum):
    """What a drain does with a letter; only the last leaves it where it is."""

    REPLAY = "replay"  # its failed units become pending, and it is sent again
    SEND = "send"  # it is sent again as it is: new to the ledger, waited for, or of use there
    SETTLE = "settle"  # the ledger needs it no more
    QUARANTINE = "quarantine"  # its unit is, or is now, held for a person
    POISON = "poison"  # no unit can be made of it: it goes to the poison store
    RECOVER = "recover"  # planned only: a lost worker holds its unit, which is freed first
    LEAVE = "leave"  # it stays; the reason says why


class LetterReason(StrEnum):
    """Why letters stay, go or are sent, beside the rules of the gate and the reasons of a plan."""

    # They stay.
    DEFERRED = "deferred"  # it cannot be judged now
    CHANGED = "changed"  # its body is not the one that was planned
    MOVED = "moved"  # its units are no longer as they were planned
    NOT_FOUND = "not_found"  # planned, and not there
    NOT_REACHED = "not_reached"  # planned, not met, and others are there that nobody could look at
    NOT_KEPT_WHOLE = "not_kept_whole"  # too long for the poison store, which would cut it
    NOT_SENDABLE = "not_sendable"  # no queue of this kind takes its body
    NOT_TAKEN_UP = "not_taken_up"  # no call has looked at it yet
    NOT_CONFIRMED = "not_confirmed"  # a call was broken off before its sending was known
    # They go: the ledger needs them no more.
    IGNORED = "ignored"
    SUPERSEDED = "superseded"
    NOT_REINGESTED = "not_reingested"
    DUE = "due"
    # They are sent.
    UNKNOWN_TO_LEDGER = "unknown_to_ledger"
    ORDERS_OBJECT = "orders_object"
    WAITS_FOR_MESSAGE = "waits_for_message"
    NEWER_OBJECT = "newer_object"


DEFERRED = LetterReason.DEFERRED.value
CHANGED = LetterReason.CHANGED.value
MOVED = LetterReason.MOVED.value
NOT_FOUND = LetterReason.NOT_FOUND.value
NOT_REACHED = LetterReason.NOT_REACHED.value
BEYOND = SkipReason.BEYOND_MAX_EVENTS.value

#: Receipts after which the ledger needs the message no more.
_SETTLED = {
    Action.DUPLICATE: SkipReason.SUCCEEDED.value,
    Action.IGNORE_OLDER: LetterReason.SUPERSEDED.value,
    Action.NOT_REINGESTED: LetterReason.NOT_REINGESTED.value,
    Action.DUE: LetterReason.DUE.value,
    Action.QUARANTINE: SkipReason.ATTEMPTS_EXCEEDED.value,
}
#: The strongest first: what one unit of a letter needs, the whole letter gets.
_FOLD = (
    DrainAction.LEAVE,
    DrainAction.RECOVER,
    DrainAction.REPLAY,
    DrainAction.SEND,
    DrainAction.QUARANTINE,
    DrainAction.SETTLE,
)
SENT = frozenset({DrainAction.REPLAY, DrainAction.SEND})
#: The letter goes, and nobody receives it again.
_REMOVED = frozenset({DrainAction.SETTLE, DrainAction.QUARANTINE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter in hand, and what its body says."""

    message_id: str
    #: Of the delivery in hand.
    receipt: str
    body: bytes
    sent_at: datetime
    parsed: ParsedMessage

    @property
    def body_sha256(self) -> str:
        """The hash by which a plan knows the body again."""
        return sha256_hex(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownUnit:
    """What the ledger knows of an announced unit."""

    known: Known
    #: The newest version of its object that the ledger knows.
    object_ref: ObjectReference


#: By object address; what is missing is unknown to the ledger.
KnownUnits = Mapping[str, KnownUnit]

#: Tells which rule of the gate keeps a dataset's letters from being sent again, if one does.
Denies = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRules:
    """What decides about a letter beside the state of its units."""

    ledger: LedgerRules
    #: Codes that it names count as mended.
    selection: Selection
    denies: Denies
    #: Whether the queue that letters go to takes a body.
    sendable: Callable[[bytes], bool] = lambda _body: True


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFate:
    """What becomes of one unit of a letter."""

    wal_id: str
    #: None: new to the ledger.
    known: Known | None
    action: DrainAction
    reason: str | None = None

    @property
    def version(self) -> int | None:
        """The version at which it was decided."""
        return None if self.known is None else self.known.version


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFate:
    """What becomes of a letter, and of its units."""

    action: DrainAction
    reason: str | None = None
    units: tuple[UnitFate, ...] = ()

    @property
    def versions(self) -> tuple[tuple[str, int | None], ...]:
        """Its units with their versions, each once and in order."""
        return tuple(sorted({(unit.wal_id, unit.version) for unit in self.units}))


def left(reason: str, fate: LetterFate | None = None) -> LetterFate:
    """Leave a letter where it is."""
    units = () if fate is None else fate.units
    return LetterFate(action=DrainAction.LEAVE, reason=reason, units=units)


def decide_letter(
    letter: Letter, known: KnownUnits, rules: DrainRules, now: datetime
) -> LetterFate:
    """Return what a drain does with a letter, as the ledger stands."""
    fate = _decide_by_units(letter.parsed, known, rules, now)
    if fate.action in SENT:
        return fate if rules.sendable(letter.body) else left(LetterReason.NOT_SENDABLE.value, fate)
    is_cut = letter.parsed.poison is not None and len(letter.body) > POISON_BYTES_MAX
    if is_cut and fate.action is not DrainAction.LEAVE:
        return left(LetterReason.NOT_KEPT_WHOLE.value, fate)
    return fate


def _decide_by_units(
    parsed: ParsedMessage, known: KnownUnits, rules: DrainRules, now: datetime
) -> LetterFate:
    if parsed.deferred is not None:
        return left(DEFERRED)
    if not parsed.units:
        if parsed.poison is not None:
            return LetterFate(action=DrainAction.POISON, reason=parsed.poison.code)
        return LetterFate(action=DrainAction.SETTLE, reason=LetterReason.IGNORED.value)
    fates = tuple(decide_unit(u, known.get(u.object_uri), rules, now) for u in parsed.units)
    strongest = min(fates, key=lambda fate: _FOLD.index(fate.action))
    return LetterFate(action=strongest.action, reason=strongest.reason, units=fates)


def decide_unit(
    unit: IngestUnit, found: KnownUnit | None, rules: DrainRules, now: datetime
) -> UnitFate:
    """Return what becomes of one unit: the ledger's own rules of receipt and of replay decide."""
    if found is None:
        return _sent(unit.wal_id, None, unit.dataset, LetterReason.UNKNOWN_TO_LEDGER.value, rules)
    known = found.known
    order = compare_objects(unit.object_ref, found.object_ref)
    if known.status is Status.FAILED and order in {ObjectOrder.SAME, ObjectOrder.INCOMPARABLE}:
        action, reason = _failed(known, rules)
    else:
        receipt = decide_receipt(known, order, now=now, switched_off=False, rules=rules.ledger)
        action, reason = _received(known, order, receipt.action)
    if action in _REMOVED and _is_the_only_one_to_order(unit, found):
        action, reason = DrainAction.SEND, LetterReason.ORDERS_OBJECT.value
    if action is DrainAction.SEND:
        return _sent(known.wal_id, known, known.dataset, reason, rules)
    return UnitFate(wal_id=known.wal_id, known=known, action=action, reason=reason)


def _is_the_only_one_to_order(unit: IngestUnit, found: KnownUnit) -> bool:
    """Tell whether the ledger would lose a listed object's place in the order with the letter.

    An older message that comes later could not be recognised as older. Sent again, the letter
    leaves the place in the record, and goes.
    """
    is_done = found.known.status is Status.SUCCEEDED
    return not is_done and orders_listed(unit.object_ref, found.object_ref)


def _failed(known: Known, rules: DrainRules) -> tuple[DrainAction, str | None]:
    """Judge a failed unit as a replay plan does; at its limit it is held instead.

    One that the ledger retries by itself needs no message, as it was last tried without one.
    """
    if at_limit(known, rules.ledger):
        return DrainAction.QUARANTINE, SkipReason.ATTEMPTS_EXCEEDED.value
    if known.due_at is not None:
        return DrainAction.SETTLE, _SETTLED[Action.DUE]
    if not replays_code(known.last_error_code or "", rules.selection):
        return DrainAction.LEAVE, SkipReason.CODE_NOT_REPLAYED.value
    denied = rules.denies(known.dataset)
    return (DrainAction.REPLAY, None) if denied is None else (DrainAction.LEAVE, denied)


def _received(known: Known, order: ObjectOrder, receipt: Action) -> tuple[DrainAction, str | None]:
    """Translate what a worker would do on receipt of the message."""
    if receipt is Action.RECOVER:
        return DrainAction.RECOVER, "lease_expired"
    if receipt is Action.WAIT:
        return DrainAction.LEAVE, SkipReason.IN_PROGRESS.value
    if receipt is Action.HELD:
        return DrainAction.QUARANTINE, SkipReason.QUARANTINED.value
    if receipt is Action.QUARANTINE and known.status is Status.PENDING:
        return DrainAction.QUARANTINE, SkipReason.ATTEMPTS_EXCEEDED.value
    if receipt in _SETTLED:
        return DrainAction.SETTLE, _SETTLED[receipt]
    if known.status is Status.PENDING and order is not ObjectOrder.NEWER:
        # A pending unit that is due is the ledger's own; any other waits for its message.
        if known.due_at is not None:
            return DrainAction.SETTLE, LetterReason.DUE.value
        return DrainAction.SEND, LetterReason.WAITS_FOR_MESSAGE.value
    return DrainAction.SEND, LetterReason.NEWER_OBJECT.value


def _sent(
    wal_id: str, known: Known | None, dataset: str, reason: str | None, rules: DrainRules
) -> UnitFate:
    denied = rules.denies(dataset)
    if denied is not None:
        return UnitFate(wal_id=wal_id, known=known, action=DrainAction.LEAVE, reason=denied)
    return UnitFate(wal_id=wal_id, known=known, action=DrainAction.SEND, reason=reason)


# --- classifying ----------------------------------------------------------------------------------


def cause_of_code(code: str | None) -> Cause:
    """Return the kind of fault behind a unit's code."""
    entry = registry().get(code or "")
    return Cause.UNKNOWN if entry is None or entry.cause is None else Cause(entry.cause)


def codes_of(causes: frozenset[Cause]) -> frozenset[str]:
    """Return all codes of units that have one of these causes."""
    return frozenset(
        code
        for code, entry in registry().items()
        if entry.cause is not None and Cause(entry.cause) in causes
    )


def mended(selection: Selection, causes: Iterable[Cause]) -> Selection:
    """Return a selection that names every code whose cause somebody says is mended.

    Whoever names codes means those; whoever names only causes means all codes of these.
    """
    if selection.error_codes:
        return selection
    return replace(selection, error_codes=tuple(codes_of(frozenset(causes))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which letters are meant; all conditions hold together, for one and the same unit."""

    selection: Selection
    causes: frozenset[Cause] = frozenset()

    @property
    def asks_for_units(self) -> bool:
        """Whether a letter without a unit is out of the question."""
        chosen = self.selection
        return bool(chosen.datasets or chosen.error_codes or not chosen.data_time.is_open)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """A letter by what stands behind it, told by the unit that speaks for it."""

    cause: Cause
    dataset: str | None = None
    code: str | None = None
    #: Where its unit stands in the ledger; None: nowhere.
    status: Status | None = None
    data_time: datetime | None = None


def classify(letter: Letter, known: KnownUnits, wanted: Wanted) -> Classified | None:
    """Return the class of a letter; None if it is not wanted.

    Of several units the first that has an error speaks for the letter.
    """
    if not letter.parsed.units:
        found = _without_unit(letter.parsed)
        named = not wanted.causes or found.cause in wanted.causes
        return found if named and not wanted.asks_for_units else None
    classes = [_class_of(unit, known.get(unit.object_uri)) for unit in letter.parsed.units]
    chosen = [each for each in classes if _is_wanted(each, wanted)]
    return min(chosen, key=lambda each: each.code is None, default=None)


def _without_unit(parsed: ParsedMessage) -> Classified:
    if parsed.poison is not None:
        return Classified(cause=Cause.UNIDENTIFIED, code=parsed.poison.code)
    code = None if parsed.deferred is None else parsed.deferred.code
    return Classified(cause=Cause.UNKNOWN, code=code)


def _class_of(unit: IngestUnit, found: KnownUnit | None) -> Classified:
    code = None if found is None else found.known.last_error_code
    return Classified(
        cause=cause_of_code(code),
        dataset=unit.dataset if found is None else found.known.dataset,
        code=code,
        status=None if found is None else found.known.status,
        data_time=unit.time_range_start,
    )


def _is_wanted(found: Classified, wanted: Wanted) -> bool:
    chosen, span = wanted.selection, wanted.selection.data_time
    return (
        (not wanted.causes or found.cause in wanted.causes)
        and (not chosen.datasets or found.dataset in chosen.datasets)
        and (not chosen.error_codes or found.code in chosen.error_codes)
        and (span.start is None or (found.data_time is not None and found.data_time >= span.start))
        and (span.end is None or (found.data_time is not None and found.data_time < span.end))
    )
