"""Who is told of a node that failed for good: an alert to governance, a review where one is due.

    alert                   when                                                review
    not_retried             the error is one that is never retried              no
    sovereign_failure       the dataset's policy says whose data these are      yes
    compensation_failed     an effect stands that could not be undone           yes
    compensation_refused    governance does not allow to undo an effect         yes

An alert is raised until it is noted in the journal, under a name that depends on the failure alone:
a crash in between raises it again, and whoever keeps alerts takes it once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from tallgrass.canonical_json import sha256_hex
from tallgrass.nodes.effect_states import EffectState, TryStatus, effects_of
from tallgrass.nodes.protocols import NodeFailure
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder


class AlertKind(StrEnum):
    """Why people are told."""

    NOT_RETRIED = "not_retried"
    SOVEREIGN_FAILURE = "sovereign_failure"
    COMPENSATION_FAILED = "compensation_failed"
    COMPENSATION_REFUSED = "compensation_refused"


#: These ask for a review by people of reliability and governance.
REVIEWED: Final = frozenset(AlertKind) - {AlertKind.NOT_RETRIED}

_MEANING: Final = {
    AlertKind.NOT_RETRIED: "failed by an error that is never retried",
    AlertKind.SOVEREIGN_FAILURE: "failed on sovereign data",
    AlertKind.COMPENSATION_FAILED: "failed, and an effect of it could not be undone",
    AlertKind.COMPENSATION_REFUSED: "failed, and governance does not allow to undo an effect of it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert, as governance keeps it."""

    kind: AlertKind
    #: Names the failure: run, node, task and the time at which it failed.
    subject: str
    #: For people, in one sentence.
    title: str
    #: Nothing in it tells of sensitive data.
    detail: dict[str, Any]

    @property
    def review_ref(self) -> str | None:
        """The reference of the review request; one for all alerts of a failure."""
        if self.kind not in REVIEWED:
            return None
        return f"NODE-{sha256_hex(self.subject.encode())[:16]}"


class AlertDesk(Protocol):
    """Keeps alerts and opens reviews."""

    def note(self, alert: Alert) -> None:
        """Keep it for good, and open its review; one that is known changes nothing."""


class Escalation:
    """Raises what a failure asks for; without a desk it is only told to the recorder."""

    def __init__(self, desk: AlertDesk | None = None, *, recorder: Recorder = NOBODY) -> None:
        self._desk = desk
        self._recorder = recorder

    def alerts(self, failure: NodeFailure) -> Sequence[str]:
        """Return the kinds of alerts that the failure asks for, by what is known of it now."""
        return [kind.value for kind in alert_kinds(failure)]

    def escalate(self, failure: NodeFailure, alert: str) -> None:
        """Raise one: kept first, then told."""
        raised = alert_of(failure, AlertKind(alert))
        if self._desk is not None:
            self._desk.note(raised)
        call = failure.call
        self._recorder.event(
            names.NODE_ALERT,
            pipeline=call.pipeline,
            run_id=call.run_id,
            node=call.node_id,
            task_id=call.task.task_id,
            alert=alert,
            review_ref=raised.review_ref if self._desk is not None else None,
            message=raised.title,
        )


def alert_kinds(failure: NodeFailure) -> list[AlertKind]:
    """Tell what a failure asks for."""
    states = {each.state for each in effects_of(failure.task) if not each.is_kept}
    newest = {each.body.get("number"): each.body["status"] for each in failure.task.compensations}
    asked = {
        AlertKind.NOT_RETRIED: bool(failure.failed.get("is_final")),
        AlertKind.SOVEREIGN_FAILURE: failure.call.is_sovereign,
        AlertKind.COMPENSATION_FAILED: EffectState.STUCK in states,
        AlertKind.COMPENSATION_REFUSED: TryStatus.REFUSED in newest.values(),
    }
    return [kind for kind, is_asked in asked.items() if is_asked]


def alert_of(failure: NodeFailure, kind: AlertKind) -> Alert:
    """Return the alert of that kind."""
    call, failed = failure.call, failure.task.failed
    place = f"{call.run_id}/{call.node_id}/{call.task.task_id}"
    return Alert(
        kind=kind,
        subject=f"node:{place}@{failed.at if failed is not None else ''}",
        title=f"{call.pipeline}: {call.node_id} of run {call.run_id} {_MEANING[kind]}",
        detail={
            "alert": kind.value,
            "pipeline": call.pipeline,
            "env": call.env,
            "run_id": call.run_id,
            "node_id": call.node_id,
            "task_id": call.task.task_id,
            "dataset": call.declaration.dataset,
            "care_label": call.admission.care_label,
            "governance_ref": call.admission.governance_ref,
            "policy_ref": call.admission.policy_ref,
            "sovereignty": dict(call.admission.sovereignty),
            "error": dict(failure.failed["error"]),
            "why": failure.failed["why"],
        },
    )
