"""What is done with a queue's messages as they come in: judged at the door, then kept hidden."""

import time
from collections.abc import Callable

from tallgrass.config import Config
from tallgrass.intake.sns_signature import AdmissionRules
from tallgrass.queues.door import Door, build_door
from tallgrass.queues.held import HeldMessages
from tallgrass.queues.sns_https import Get, SnsHttps
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder


def open_door(
    config: Config,
    recorder: Recorder = NOBODY,
    *,
    ask: Get | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Door:
    """Return what judges the queue's messages before they come in."""
    return build_door(
        AdmissionRules(
            signatures_required=config.text("queue.signatures") == "required",
            topics=frozenset(config.text("queue.topics").split()),
        ),
        ask or SnsHttps(),
        confirms=config.flag("queue.confirm_subscriptions"),
        monotonic=monotonic,
        say=lambda error: recorder.event(
            names.STORE_WAITED_FOR, error_code=error.code, message=str(error)
        ),
    )


def open_held(config: Config) -> HeldMessages:
    """Return what keeps the messages in hand hidden."""
    return HeldMessages(
        visibility_s=config.number("queue.visibility_s"),
        lease_s=config.number("worker.lease_s"),
        monotonic=time.monotonic,
    )
