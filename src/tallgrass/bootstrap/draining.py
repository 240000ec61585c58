"""Dead letters over the configured queue and database: looked at, planned, drained, reported."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from uuid import UUID, uuid4

import tallgrass
from tallgrass.bootstrap.datasets import config_version, open_policies
from tallgrass.bootstrap.dead_letters import (
    bring_letters_home,
    make_replay_queue,
    open_dead_letters,
    remove_replay_queue,
)
from tallgrass.bootstrap.door import open_door
from tallgrass.bootstrap.drain_preparing import PreparedDrain, most_approvers
from tallgrass.bootstrap.planning import (
    configured_caps,
    gate_denies,
    new_run_id,
    require_known_datasets,
)
from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.replaying import run_denies
from tallgrass.bootstrap.stores import Stores, ledger_rules
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import GuardRefused, UnknownRecord
from tallgrass.governance.actors import Acting, Actor, Role, name_of
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.gate import Rule
from tallgrass.governance.policy import ReplayMode
from tallgrass.governance.switches import SwitchedOff, SwitchScope
from tallgrass.intake.parse import parse_message
from tallgrass.queues.dead_letters import LETTERS_MAX, DeadLetterPlace
from tallgrass.queues.limits import is_sendable
from tallgrass.queues.protocol import QueueMessage
from tallgrass.queues.replay_queues import replay_queue_url
from tallgrass.replay.dead_letter_plan import (
    PURPOSE,
    DrainHeader,
    DrainPlan,
    DrainRow,
    capped,
    row_of,
)
from tallgrass.replay.dead_letters import (
    BEYOND,
    CHANGED,
    NOT_FOUND,
    NOT_REACHED,
    SENT,
    Classified,
    DrainRules,
    Letter,
    LetterFate,
    Wanted,
    classify,
    decide_letter,
    left,
    mended,
)
from tallgrass.replay.drain import Drain, DrainAround, DrainPace, fate_of
from tallgrass.replay.drain_report import DrainReport, Thresholds, drain_report
from tallgrass.replay.engine import within_rate
from tallgrass.replay.plan import PlanAction
from tallgrass.replay.run import Run, report_of
from tallgrass.replay.selection import Selection
from tallgrass.sqlite_address import sqlite_file
from tallgrass.storage.plan_reader import PlanReader
from tallgrass.telemetry.recorder import NOBODY, Recorder
from tallgrass.telemetry.replay_report import batch_tracing

#: Letters looked up in the ledger together.
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A dead letter, what stands behind it, and what a drain would do with it."""

    letter: Letter
    classified: Classified
    fate: LetterFate


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlanRequest:
    """What somebody wants a plan of."""

    wanted: Wanted
    replay_run_id: str | None = None
    max_events: int | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    """How a drain is carried out; numbers can only lower what plan and settings say."""

    to_replay_queue: bool = False
    batch: int | None = None
    rate: float | None = None
    max_events: int | None = None
    borne: Thresholds = field(default_factory=Thresholds)
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[int], None] = lambda _letters: None
    sleep: Callable[[float], object] = time.sleep


class DeadLetterDesk:
    """Looks at dead letters as the pipeline that is configured sees them."""

    def __init__(
        self,
        config: Config,
        stores: Stores,
        catalogue: Catalogue,
        *,
        clock: Clock = system_clock,
        ids: Callable[[], UUID] = uuid4,
        letters_max: int = LETTERS_MAX,
        recorder: Recorder = NOBODY,
    ) -> None:
        #: Whether the last look ended before the last letter.
        self.truncated = False
        self._letters_max = letters_max
        self._recorder = recorder
        self._config = config
        self._clock = clock
        self._ids = ids
        self._stores = stores
        self._catalogue = catalogue
        self._policies = open_policies(config, catalogue)
        self._rules = ledger_rules(config, catalogue)
        self._admit = open_door(config).admit

    def read(self, message: QueueMessage) -> Letter:
        """Read a letter as a worker of the queue would read the message."""
        parsed = parse_message(
            message.body,
            message_id=message.message_id,
            sent_at=message.sent_at,
            queue=self._config.text("queue.name"),
            catalogue=self._catalogue,
            providers=self._config.rules.providers,
            admit=self._admit,
        )
        return Letter(
            message_id=message.message_id,
            receipt=message.receipt,
            body=message.body,
            sent_at=message.sent_at,
            parsed=parsed,
        )

    def each(self, wanted: Wanted) -> Iterator[Found]:
        """Yield the letters that are wanted; nothing is taken away."""
        of_ledger = PlanReader(self._stores.database).datasets(wanted.selection, None)
        known = [*of_ledger, *(one.id for one in self._catalogue.datasets)]
        require_known_datasets(wanted.selection, known)
        with closing(self._place()) as place:
            yield from self._look(place, wanted)

    def _look(self, place: DeadLetterPlace, wanted: Wanted) -> Iterator[Found]:
        """Yield the wanted among the letters that are looked at; `truncated` tells of others."""
        rules = self._planned_rules(mended(wanted.selection, wanted.causes))
        messages = self._browsed(place)
        while page := [self.read(message) for message in islice(messages, _PAGE)]:
            uris = sorted({unit.object_uri for one in page for unit in one.parsed.units})
            known, now = self._stores.drains.look(uris)
            for letter in page:
                if (classified := classify(letter, known, wanted)) is not None:
                    fate = decide_letter(letter, known, rules, now)
                    yield Found(letter=letter, classified=classified, fate=fate)

    def _browsed(self, place: DeadLetterPlace) -> Iterator[QueueMessage]:
        """Yield as many letters as are looked at together; one more tells that there are more."""
        self.truncated = False
        messages = place.browse(self._letters_max + 1)
        yield from islice(messages, self._letters_max)
        self.truncated = bool(list(messages))

    def plan(self, request: DrainPlanRequest) -> DrainPlan:
        """Plan a drain of the wanted letters; only read."""
        wanted = request.wanted
        caps = configured_caps(self._config).lowered(
            max_events=request.max_events, batch=request.batch
        )
        rows: list[DrainRow] = []
        datasets: set[str] = set()
        for found in self.each(wanted):
            rows.append(row_of(found.letter.message_id, found.letter.body_sha256, found.fate))
            if found.fate.action in SENT:
                datasets |= {unit.dataset for unit in found.letter.parsed.units}
        header = DrainHeader(
            replay_run_id=new_run_id(request.replay_run_id, self._ids),
            env=self._config.text("env"),
            queue=self._config.text("queue.name"),
            selection=wanted.selection,
            causes=tuple(sorted(wanted.causes)),
            code_version=tallgrass.__version__,
            config_version=config_version(self._config, self._catalogue),
            approvals_needed=most_approvers(self._policies, datasets),
            caps=caps,
            truncated=self.truncated,
        )
        return DrainPlan(header=header, rows=tuple(capped(rows, caps.max_events, BEYOND)))

    def preview(self, plan: DrainPlan) -> list[LetterFate]:
        """Tell what a drain of the plan would do now with each of its letters; only read."""
        rows = {row.message_id: row for row in plan.rows}
        wanted = Wanted(selection=Selection())
        rules = self._planned_rules(_mended_by(plan))
        fates: list[LetterFate] = []
        with closing(self._place()) as place:
            for found in self._look(place, wanted):
                letter = found.letter
                row = rows.pop(letter.message_id, None)
                if row is None:
                    continue
                if row.body_sha256 != letter.body_sha256:
                    fates.append(left(CHANGED))
                    continue
                uris = [unit.object_uri for unit in letter.parsed.units]
                known, now = self._stores.drains.look(uris)
                now_fate = decide_letter(letter, known, rules, now)
                fates.append(fate_of(row, now_fate, plan.header.replay_run_id))
        return fates + [left(NOT_REACHED if self.truncated else NOT_FOUND)] * len(rows)

    def drain(
        self,
        prepared: PreparedDrain,
        options: DrainOptions,
        *,
        by: Acting,
        run: Run | None = None,
    ) -> DrainReport:
        """Take the letters of a run out; register or resume the run first if it is not given."""
        run = run or self.begin(prepared, by=by)
        stores, plan = self._stores, prepared.plan
        stores.drains.plan(run, plan.rows)
        # A lost worker must not keep its units from being judged.
        stores.leases.recover()
        url = None
        if options.to_replay_queue:
            url = make_replay_queue(self._config, run.order.replay_run_id)
        with (
            closing(self._place()) as place,
            closing(open_queue(self._config, url=url, clock=self._clock, ids=self._ids)) as queue,
        ):
            drain = Drain(
                place,
                queue,
                stores.drains,
                stores.poison,
                read=self.read,
                queue_name=self._config.text("queue.name"),
                rules=self._run_rules(run, plan, by),
                pace=self._pace(plan, options),
                around=DrainAround(
                    sleep=options.sleep,
                    monotonic=time.monotonic,
                    stop=options.stop,
                    progress=options.progress,
                    batched=batch_tracing(self._recorder, self._clock),
                    failed=lambda: bool(self.report(run, options.borne).exceeded),
                ),
            )
            drain.run(run, plan.rows)
        report = self.report(run, options.borne)
        if not (report.unfinished or report.left or report.units.due):
            stores.replays.finish(run)
        return report

    def report(self, run: Run, borne: Thresholds) -> DrainReport:
        """Tell what a drain has come to."""
        counts = self._stores.drains.counts(run)
        duplicates, regressions = self._stores.drains.quality(run)
        current = self._stores.replay_runs.find(run.order.replay_run_id) or run
        return drain_report(
            sum(each.letters for each in counts),
            counts,
            report_of(current, self._stores.replay_runs.counts(run)),
            succeeded_later=self._stores.drains.succeeded_later(run),
            duplicates=duplicates,
            lineage_regressions=regressions,
            borne=borne,
        )

    def close(self, run: Run, *, by: Acting) -> tuple[DrainReport, bool]:
        """Settle a run's records and remove its queue; refused while anything may be in there.

        The ledger is asked before the queue: a letter that was sent, and whose units have not ended
        in the ledger, may still be in the queue, whatever the queue counts.
        """
        stores, run_id = self._stores, run.order.replay_run_id
        has_queue = bring_letters_home(self._config, run_id)
        stores.drains.settle(run)
        report = self.report(run, Thresholds())
        if has_queue:
            awaited = max(stores.drains.awaited(run), report.units.due)
            if awaited:
                raise self._not_empty(run_id, f"{awaited:,} units wait for messages of the run")
            if not remove_replay_queue(self._config, run_id):
                raise self._not_empty(run_id, "the queue of the run is not empty")
        if not report.units.due:
            stores.replays.finish(run)
        stores.audit.append(
            [
                AuditEntry(
                    actor=name_of(by),
                    action="dlq_close",
                    subject=run_id,
                    reason=PURPOSE,
                    detail={"queue_removed": has_queue},
                )
            ]
        )
        return report, has_queue

    def _not_empty(self, run_id: str, why: str) -> GuardRefused:
        url = replay_queue_url(self._config.text("queue.url"), run_id)
        message = f"{why}: tallgrass ingest --queue {url} --replay-run-id {run_id} --drain"
        return GuardRefused(message, guard=Rule.QUEUE_NOT_EMPTY.value)

    def find(self, replay_run_id: str) -> Run:
        """Return the run of a drain; any other is unknown."""
        run = self._stores.replay_runs.find(replay_run_id)
        if run is None or run.order.mode is not ReplayMode.DLQ:
            raise UnknownRecord(f"there is no drain {replay_run_id}", code="run_unknown")
        return run

    def _place(self) -> DeadLetterPlace:
        return open_dead_letters(self._config, clock=self._clock, ids=self._ids)

    def _is_sendable(self, body: bytes) -> bool:
        as_text = sqlite_file(self._config.text("queue.url")) is None
        return is_sendable(body, as_text=as_text)

    def _planned_rules(self, selection: Selection) -> DrainRules:
        """Ask the gate as an approved run would."""
        off = self._stores.switches.switched_off(SwitchScope.REPLAY)
        denies = gate_denies(self._policies, off, ReplayMode.DLQ)
        return DrainRules(
            ledger=self._rules,
            selection=selection,
            denies=lambda dataset: denies(dataset, PlanAction.REPLAY),
            sendable=self._is_sendable,
        )

    def _run_rules(
        self, run: Run, plan: DrainPlan, by: Acting
    ) -> Callable[[SwitchedOff], DrainRules]:
        role = by.role if isinstance(by, Actor) else Role.OPERATOR
        denies = run_denies(self._policies, ReplayMode.DLQ, role, run.approvals)
        base = DrainRules(
            ledger=self._rules,
            selection=_mended_by(plan),
            denies=lambda _dataset: None,
            sendable=self._is_sendable,
        )
        return lambda off: replace(
            base, denies=lambda dataset: denies(dataset, PlanAction.REPLAY, off)
        )

    def begin(self, prepared: PreparedDrain, *, by: Acting) -> Run:
        """Register or resume the run; here an approval is used, or is found missing."""
        replays, order = self._stores.replays, prepared.order
        if prepared.resumed is None:
            return replays.register(
                order,
                by=by,
                needed=prepared.needed,
                purpose=PURPOSE,
                remediation=prepared.remediation,
            )
        counts = self._stores.replay_runs.counts(prepared.resumed)
        units = sum(each.records for each in counts)
        return replays.resume(order.replay_run_id, by=by, planned=units, skipped={})

    def _pace(self, plan: DrainPlan, options: DrainOptions) -> DrainPace:
        caps = configured_caps(self._config).lowered(
            max_events=min(plan.header.caps.max_events, options.max_events or LETTERS_MAX),
            batch=min(plan.header.caps.batch, options.batch or LETTERS_MAX),
        )
        rate = min(caps.max_records_per_second, options.rate or caps.max_records_per_second)
        return DrainPace(
            batch=within_rate(caps.batch, rate), letters_per_s=rate, max_events=caps.max_events
        )


def _mended_by(plan: DrainPlan) -> Selection:
    return mended(plan.header.selection, plan.header.causes)
