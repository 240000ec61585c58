"""What would mend a finding: objects for a backfill, units for a replay, or a person. Pure."""

from enum import StrEnum

from tallgrass.inventory.reconcile import Finding, Kind


class Mend(StrEnum):
    """Who mends it."""

    BACKFILL = "backfill"  # the object is announced again by a list
    REPLAY = "replay"  # the failed unit is replayed
    RERUN = "rerun"  # the succeeded unit is run again, by an approved plan
    REBUILD = "rebuild"  # the same, though nothing has changed: the item is lost
    PERSON = "person"


_MENDS = {
    Kind.NEVER_NOTIFIED: Mend.BACKFILL,
    Kind.OBJECT_CHANGED: Mend.BACKFILL,
    Kind.FAILED: Mend.REPLAY,
    Kind.STALE: Mend.RERUN,
    Kind.LEDGER_WITHOUT_ITEM: Mend.REBUILD,
}

#: Why a person is needed, or nobody.
ADVICE = {
    Kind.STUCK: "start or look after the workers: `tallgrass ingest --drain` recovers what was "
    "lost and claims what is due",
    Kind.QUARANTINED: "look at each: `tallgrass quarantine list`",
    Kind.ITEM_WITHOUT_LEDGER: "somebody went round the ledger: `tallgrass verify`, then restore it",
    Kind.OBJECT_GONE: "the source has removed it: the item stays; policy says how it is marked",
    Kind.GAP: "the source has nothing there either: ask the provider",
}

#: What mends the others; with a plan folder, its commands say it in full.
UNPLANNED = {
    Kind.NEVER_NOTIFIED: "`tallgrass backfill` brings it in; --plan-dir writes the list for it",
    Kind.OBJECT_CHANGED: "`tallgrass backfill` brings it in; --plan-dir writes the list for it",
    Kind.STALE: "a re-run by an approved plan; --plan-dir writes its selection",
    Kind.LEDGER_WITHOUT_ITEM: "a re-run by an approved plan; --plan-dir writes its selection",
}

#: Of a gap, where no bucket was asked.
GAP_UNLISTED = "the ledger has nothing there: without --catalog-only the bucket is asked as well"


def failed_advice(code: str, units: int, replay: str | None) -> str:
    """Return what to do about units that failed with a code.

    `replay` are the flags that select them; None where a command that does is told elsewhere.
    """
    mend = f"{code} ({units:,}): mend its cause first (`tallgrass explain {code}`)"
    if replay is None:
        return mend
    command = f"tallgrass replay {replay} --error-code {code} --reason incident --incident REF"
    return f"{mend}, then `{command}`"


def mend_of(finding: Finding) -> Mend:
    """Return who mends a finding."""
    return _MENDS.get(finding.kind, Mend.PERSON)
