"""A replay run in the server's background: begun by one request, watched by others.

Guards, references and the approval are checked before the request is answered. The run then ends by
itself, is stopped, or ends with the server; it can be taken up later, as by `tallgrass replay
--replay-run-id`.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tallgrass.api.jobs import Job, JobKind, JobSide, JobState
from tallgrass.api.service import Service
from tallgrass.bootstrap.replay_preparing import Prepared, ReplayRequest, prepare_replay
from tallgrass.bootstrap.replay_reporting import reported
from tallgrass.bootstrap.replay_runs import find_run
from tallgrass.bootstrap.replaying import RunOptions, begin_replay, carry_out_replay
from tallgrass.bootstrap.stores import Stores, open_current_stores
from tallgrass.bootstrap.workers import require_objects
from tallgrass.errors import Refused
from tallgrass.governance.actors import Actor
from tallgrass.replay.run import Run, RunReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """How a run is carried out; nothing here widens what it may do."""

    #: Can only lower replay.max_records_per_second.
    records_per_s: float | None = None
    mismatches_max: int = 0
    #: Whether the server works on the units itself, or leaves them to the workers of ingest.
    work: bool = True


def start_replay(here: Service, actor: Actor, request: ReplayRequest, pacing: Pacing) -> Job:
    """Begin or resume a run, and let it go on in the background."""
    _require_free(here)
    if pacing.work:
        require_objects(here.config)
    with here.writing.lent() as stores:
        prepared = prepare_replay(here.config, stores, here.catalogue, request, by=actor)
        try:
            run = begin_replay(stores, prepared, by=actor)
            work = _work(here, prepared, run, pacing, actor)
            title = _title(run.order.replay_run_id)
            return here.jobs.start(JobKind.REPLAY, title, work, by=actor.name)
        except BaseException:
            prepared.close()
            raise


def resuming(here: Service, stores: Stores, run_id: str) -> ReplayRequest:
    """Return what goes on with a run: by its plan where that is kept, else by its selection."""
    order = find_run(stores, run_id).order
    if here.plans.has(order.plan_sha256):
        return ReplayRequest(
            plan_file=here.plans.path(order.plan_sha256), approval_id=order.approval_id
        )
    return ReplayRequest(replay_run_id=run_id)


def job_of(here: Service, run_id: str) -> Job | None:
    """Return the latest job of a run that this server knows."""
    jobs = here.jobs.all(JobKind.REPLAY)
    return next((job for job in jobs if job.title == _title(run_id)), None)


def _title(run_id: str) -> str:
    return f"replay {run_id}"


def _require_free(here: Service) -> None:
    """Refuse early, before an approval is used; the start itself asks again."""
    for job in here.jobs.all(JobKind.REPLAY):
        if job.state is JobState.RUNNING:
            message = f"a replay runs already, started by {job.started_by}: {job.title}"
            raise Refused(message, code="job_running")


def _work(here: Service, prepared: Prepared, run: Run, pacing: Pacing, actor: Actor) -> Any:
    def work(side: JobSide) -> Mapping[str, Any]:
        def tell(report: RunReport) -> None:
            side.tell(report.document())

        def lagging(lag_s: float) -> None:
            side.tell({"replay_run_id": run.order.replay_run_id, "waits_for_ingest_s": lag_s})

        side.tell({"replay_run_id": run.order.replay_run_id})
        options = RunOptions(
            work=pacing.work,
            records_per_s=pacing.records_per_s,
            mismatches_max=pacing.mismatches_max,
            stop=side.stop,
            progress=tell,
            lagging=lagging,
            sleep=side.sleep,
        )
        config, catalogue = here.config, here.catalogue
        with (
            closing(prepared),
            reported(config, "replay") as recorder,
            closing(open_current_stores(config, catalogue=catalogue, recorder=recorder)) as stores,
        ):
            report = carry_out_replay(
                config, stores, catalogue, prepared, run, options, by=actor, recorder=recorder
            )
        tell(report)
        return report.document()

    return work
