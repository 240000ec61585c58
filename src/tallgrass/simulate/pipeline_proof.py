"""Whether the pipeline kept its promises in a demo: each is a count from the tables."""

from dataclasses import dataclass

from tallgrass.bootstrap.proofs import Counts, applied_etags, count_for_proof
from tallgrass.bootstrap.stores import Stores
from tallgrass.simulate.feed import FeedManifest, FeedUnit
from tallgrass.simulate.feed_plan import Fate

_WRITTEN_TWICE = (Fate.OVERWRITTEN, Fate.STALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One promise, what was counted, and what it must be."""

    promise: str
    found: int
    expected: int

    @property
    def holds(self) -> bool:
        """Whether the count is what it must be."""
        return self.found == self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the demo saw outside the ledger's tables."""

    manifest: FeedManifest
    #: Items whose bytes do not have the hash that stands beside them.
    wrong_hashes: int
    #: Messages that left the queue because the ledger had an answer for all of their units.
    answered: int
    waiting: int
    dead: int
    ignored: int
    poison_seen_twice: int
    workers_lost: int


def prove(stores: Stores, seen: Findings) -> list[Proof]:
    """Count the tables and compare with what the feed's manifest asks for."""
    count = count_for_proof(stores.database)
    units = seen.manifest.units
    good = [unit for unit in units if unit.expected == "succeeded"]
    verifier, unsealed = stores.audit.verify()
    checks = (
        (
            "Every message is accounted for: answered or dead-lettered",
            seen.answered + seen.dead + seen.waiting,
            seen.manifest.messages,
        ),
        ("… and none is left in the queue", seen.waiting, 0),
        ("Every announced unit is in the ledger", count("count_records"), len(units)),
        ("… and has one record", count("count_objects"), len(units)),
        (
            "Every unit that can succeed did",
            count("count_became", status="succeeded", error_code=None, rows=_uris(good)),
            len(good),
        ),
        (
            "Every other one failed, for the reason that the feed gave it",
            _failed_as_planned(count, units),
            len(units) - len(good),
        ),
        ("One item for each success", count("count_items"), len(good)),
        ("… with provenance and event, all or nothing (units torn)", count("count_torn"), 0),
        ("… made of the newest object", _newest(stores, good), len(good)),
        ("… whose bytes have the recorded hash (items that differ)", seen.wrong_hashes, 0),
        (
            "Duplicates changed nothing (units applied twice without a newer object)",
            count(
                "count_applied_twice",
                rows=_uris([unit for unit in units if unit.fate not in _WRITTEN_TWICE]),
            ),
            0,
        ),
        ("No unit was ever worked on twice at a time", count("count_overlaps"), 0),
        ("Every claim is on record (units miscounted)", count("count_miscounted"), 0),
        ("The worker that died was fenced", count("count_fenced_workers"), seen.workers_lost),
        ("… and wrote nothing afterwards", count("count_written_after_fence"), 0),
        (
            "What cannot be understood is kept",
            count("count_poison") - seen.poison_seen_twice,
            sum(seen.manifest.poison.values()),
        ),
        (
            "What is no unit is let go, and counted",
            seen.ignored,
            sum(seen.manifest.ignored.values()),
        ),
        ("Nothing is left half-done", count("count_unfinished"), 0),
        ("The audit log is sealed and unbroken", len(verifier.faults) + unsealed, 0),
    )
    return [Proof(promise=text, found=found, expected=want) for text, found, want in checks]


def _uris(units: list[FeedUnit]) -> list[str]:
    return [unit.object_uri for unit in units]


def _failed_as_planned(count: Counts, units: tuple[FeedUnit, ...]) -> int:
    """Count the units that failed with their planned code; a limit of attempts may hold them."""
    found = 0
    for code in sorted({unit.expected_code for unit in units if unit.expected_code is not None}):
        rows = _uris([unit for unit in units if unit.expected_code == code])
        found += count("count_became", status="failed", error_code=code, rows=rows)
        found += count("count_became", status="quarantined", error_code=None, rows=rows)
    return found


def _newest(stores: Stores, good: list[FeedUnit]) -> int:
    etags = applied_etags(stores.database)
    return sum(etags.get(unit.object_uri) == unit.etag for unit in good)
