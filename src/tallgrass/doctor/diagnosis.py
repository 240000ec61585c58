"""All checks in reading order.

Each is a decision over facts that ``gathering.py`` brings: pure, so that each can be shown what it
must say without breaking a machine for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tallgrass.doctor.finding import Facts, Finding, Trouble, Verdict, problem, skipped
from tallgrass.doctor.ledger_checks import (
    check_audit_anchors,
    check_database,
    check_database_rights,
    check_poison,
    check_projection,
    check_switches,
)
from tallgrass.doctor.machine_checks import (
    check_clock,
    check_configuration,
    check_datasets,
    check_disk_space,
    check_extras,
    check_file_system,
    check_folders,
    check_lease,
)
from tallgrass.doctor.queue_checks import (
    check_attempts,
    check_credentials,
    check_dead_letters,
    check_encryption,
    check_queue,
    check_queue_policy,
    check_signatures,
    check_visibility,
)
from tallgrass.views.text import hide_credentials

#: By the name of the finding.
CHECKS: dict[str, Callable[[Facts], Finding]] = {
    "configuration": check_configuration,
    "datasets": check_datasets,
    "extras": check_extras,
    "folders": check_folders,
    "disk-space": check_disk_space,
    "file-system": check_file_system,
    "database": check_database,
    "database-rights": check_database_rights,
    "clock": check_clock,
    "lease": check_lease,
    "visibility": check_visibility,
    "attempts": check_attempts,
    "credentials": check_credentials,
    "queue": check_queue,
    "dead-letters": check_dead_letters,
    "queue-policy": check_queue_policy,
    "encryption": check_encryption,
    "signatures": check_signatures,
    "switches": check_switches,
    "poison": check_poison,
    "audit-anchors": check_audit_anchors,
    "projection": check_projection,
}


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """Run all checks, in reading order."""
    return tuple(check(facts) for check in CHECKS.values())


def is_healthy(findings: Sequence[Finding]) -> bool:
    """Tell whether nothing has to be mended before work begins."""
    return all(finding.verdict is not Verdict.PROBLEM for finding in findings)


def without_credentials(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings as they may be shown: addresses in them may hold passwords."""
    return tuple(replace(one, seen=hide_credentials(one.seen)) for one in findings)


def unusable_configuration(trouble: Trouble) -> tuple[Finding, ...]:
    """Return the findings where there is no configuration to check anything by."""
    first, *rest = CHECKS
    reason = "the configuration cannot be used"
    return (
        problem(first, trouble.message, trouble.remedy),
        *(skipped(name, reason) for name in rest),
    )
