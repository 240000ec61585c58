"""Checks of the database, and of what it holds that somebody should look at."""

from tallgrass.doctor.finding import (
    DatabaseFacts,
    Facts,
    Finding,
    LedgerFacts,
    NotAsked,
    Trouble,
    ok,
    problem,
    skipped,
    warning,
)
from tallgrass.error_codes import lookup

#: A copy that is further behind has nobody who keeps it.
PROJECTION_S_MAX = 3600


def check_database(facts: Facts) -> Finding:
    """The database answers and has this release's tables."""
    name, found = "database", facts.database
    if isinstance(found, NotAsked):
        return skipped(name, found.reason)
    if isinstance(found, Trouble):
        fix = found.remedy
        if found.code == "database_unreachable" and not facts.on_postgres:
            fix = "correct database.url, or make the database: tallgrass db migrate"
        return problem(name, found.message, fix)
    if found.problem is not None:
        return problem(name, found.problem, lookup(found.schema).remedy)
    return ok(name, f"{found.place}, {found.version}, schema {found.schema}")


def check_database_rights(facts: Facts) -> Finding:
    """The worker's account may write."""
    name, found = "database-rights", facts.database
    if not isinstance(found, DatabaseFacts):
        return skipped(name, "the database could not be opened")
    if not found.writable:
        return problem(name, f"{found.place} can only be read", lookup("database_read_only").remedy)
    return ok(name, "may read and write")


def check_switches(facts: Facts) -> Finding:
    """No kill switch stops what somebody waits for."""
    name, found = "switches", facts.ledger
    if not isinstance(found, LedgerFacts):
        return skipped(name, _why_no_ledger(found))
    if found.switches:
        fix = "`tallgrass status` tells who turned them on and why; what is parked waits for them"
        return warning(name, f"on: {', '.join(found.switches)}", fix)
    return ok(name, "none is on")


def check_poison(facts: Facts) -> Finding:
    """No message waits that nobody could read."""
    name, found = "poison", facts.ledger
    if not isinstance(found, LedgerFacts):
        return skipped(name, _why_no_ledger(found))
    if found.poison_open:
        fix = "`tallgrass poison list` says why; mend the cause, then `tallgrass poison feed`"
        return warning(name, f"{found.poison_open:,} messages are open", fix)
    return ok(name, "no message is open")


def check_audit_anchors(facts: Facts) -> Finding:
    """The audit chain's head is written down outside the database."""
    name, found = "audit-anchors", facts.ledger
    if not isinstance(found, LedgerFacts):
        return skipped(name, _why_no_ledger(found))
    anchors = found.anchors
    place = facts.config.text("audit.anchor_file")
    if isinstance(anchors, Trouble):
        return problem(name, anchors.message, anchors.remedy)
    if not anchors and found.audit_entries:
        fix = "tallgrass audit seal, and keep the file where no worker can write"
        return warning(name, f"{place} holds none: a cut-off tail would not be seen", fix)
    return ok(name, f"{anchors:,} in {place}" if anchors else "the audit log is empty")


def check_projection(facts: Facts) -> Finding:
    """The copy in pgstac is kept up to date."""
    name, found = "projection", facts.ledger
    if not isinstance(found, LedgerFacts):
        return skipped(name, _why_no_ledger(found))
    if found.unprojected is None:
        return ok(name, "the catalog is not copied to pgstac")
    number, seconds = found.unprojected
    if seconds > PROJECTION_S_MAX:
        fix = "run `tallgrass stac project --follow`, or `tallgrass stac project --forget`"
        return warning(name, f"{number:,} changes wait, the oldest for {seconds:,.0f} s", fix)
    return ok(name, f"{number:,} changes wait")


def _why_no_ledger(found: Trouble | NotAsked) -> str:
    return found.reason if isinstance(found, NotAsked) else found.message
