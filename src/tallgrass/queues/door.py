"""The door of a queue: who may come in, and which subscriptions are confirmed."""

from collections.abc import Callable
from dataclasses import dataclass

from tallgrass.errors import CertificateUnreachable, ConfigError
from tallgrass.intake.parse import Admission
from tallgrass.intake.sns_signature import AdmissionRules, admission
from tallgrass.queues.certificates import Certificates
from tallgrass.queues.sns_https import Get
from tallgrass.queues.subscriptions import Confirmer, confirmer


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What a worker asks of each message; None where nothing is asked."""

    admit: Admission | None = None
    confirm: Confirmer | None = None


def build_door(
    rules: AdmissionRules,
    ask: Get,
    *,
    confirms: bool,
    monotonic: Callable[[], float],
    say: Callable[[CertificateUnreachable], None],
) -> Door:
    """Put a door together; one that would confirm anybody's subscription is refused."""
    if confirms and not (rules.signatures_required and rules.topics):
        raise ConfigError(
            "queue.confirm_subscriptions: set queue.signatures = 'required' and queue.topics too; "
            "otherwise anybody could have a subscription confirmed"
        )
    admit = admission(rules, Certificates(ask, monotonic=monotonic, say=say))
    return Door(
        admit=admit, confirm=None if admit is None or not confirms else confirmer(admit, ask)
    )
