"""What a run's journal says of one execution of a node, as lineage tells it: pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tallgrass.canonical_json import sha256_hex
from tallgrass.nodes.entries import Entry, Kind, TaskId, TaskState
from tallgrass.provenance.ids import uuid5
from tallgrass.provenance.openlineage import EventType

#: UUIDv5 of the URL namespace and ``urn:kfm:nodes``: below it stand the pipelines.
_NODES: Final = "4fd18524-a675-5dd0-99b6-ef62500278b3"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLineage:
    """One execution of a node as lineage sees it; `said` is what the journal says of the call."""

    run_id: str
    task: TaskId
    #: Of the run; it stands in its journal alone.
    salt: str
    said: Mapping[str, Any]
    identity: str
    started_at: str
    ended_at: str
    #: 0 for a hit of the cache.
    attempts: int
    from_cache: bool
    result_hash: str | None
    #: None unless it failed for good.
    failure: str | None

    @property
    def ended(self) -> EventType:
        """How it ended."""
        return EventType.COMPLETE if self.failure is None else EventType.FAIL

    @property
    def parent_run_id(self) -> str:
        """The UUID of the run that the task belongs to."""
        return run_uuid(self.said["pipeline"], self.run_id)

    @property
    def openlineage_run_id(self) -> str:
        """The UUID of the task."""
        name = self.sealed(self.task.task_id)
        return task_uuid(self.said["pipeline"], self.run_id, replace(self.task, task_id=name))

    @property
    def reads(self) -> list[str]:
        """What it read: what it declares, or at least its dataset."""
        said = self.said
        return said["reads"] or ([said["dataset"]] if said["dataset"] else [])

    @property
    def activity_id(self) -> str:
        """The IRI of the activity; code or inputs that differ make another one."""
        named = uuid5(self.openlineage_run_id, "activity", self.sealed(self.identity))
        return f"urn:prov:activity:{named}"

    def told(self, value: str | None) -> str | None:
        """Return a hash, or an id that may be made of one, only where the data are open."""
        return None if self.said["sensitive"] else value

    def sealed(self, value: str) -> str:
        """Return what names are made of: of sensitive data nothing that trying could find."""
        return sealed(self.salt, value) if self.said["sensitive"] else value


def sealed(salt: str, value: str) -> str:
    """Return what stands for a text that could be found by trying, made with a run's salt."""
    return sha256_hex(f"{salt}|{value}".encode())


def run_uuid(pipeline: str, run_id: str) -> str:
    """Return the UUIDv5 of a run of a pipeline."""
    return uuid5(uuid5(_NODES, pipeline), run_id)


def task_uuid(pipeline: str, run_id: str, task: TaskId) -> str:
    """Return the UUIDv5 of a task: of its run, its node and its own id."""
    return uuid5(uuid5(_NODES, pipeline), run_id, task.node_id, task.task_id)


def lineage_of(run_id: str, task: TaskState, end: Entry) -> NodeLineage | None:
    """Return the lineage of a task that ended by this entry; None if nothing says how it began."""
    said = end.body if end.kind is Kind.HIT else None if task.pre is None else task.pre.body
    if said is None:
        return None
    identity = end.body["identity"]
    tried = [] if end.kind is Kind.HIT else task.tried(identity)
    began = tried[0].started_at if tried else end.at
    return NodeLineage(
        run_id=run_id,
        task=task.id,
        salt=task.salt,
        said=said,
        identity=identity,
        started_at=began,
        ended_at=end.at,
        attempts=len(tried),
        from_cache=end.kind is Kind.HIT,
        result_hash=end.body.get("result_hash"),
        failure=_failure(end) if end.kind is Kind.FAILED else None,
    )


def _failure(end: Entry) -> str:
    """Say what failed, without the error's own text: that may hold anything."""
    error = end.body["error"]
    code = f" ({error['code']})" if error["code"] else ""
    return f"{error['type']}{code}: {end.body['why']}"
