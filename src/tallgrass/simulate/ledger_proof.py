"""Whether the ledger kept its promises in a demo: each is a count from the tables."""

from dataclasses import dataclass

from tallgrass.bootstrap import Stores, count_for_proof
from tallgrass.simulate.ledger_demo import Story


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One promise, what was counted, and what the story asks for."""

    promise: str
    found: int
    expected: int

    @property
    def holds(self) -> bool:
        """Whether the count is what it must be."""
        return self.found == self.expected


def prove(stores: Stores, story: Story) -> list[Proof]:
    """Count the tables and compare with the story."""
    count = count_for_proof(stores.database)
    verifier, unsealed = stores.audit.verify()
    # A worker that died, one that slept, and those that the killer took with it.
    fenced = 2 + story.workers_killed
    checks = (
        ("Every announced unit is in the ledger", count("count_records"), story.units),
        ("… and has one record", count("count_objects"), story.units),
        ("No unit was ever worked on twice at a time", count("count_overlaps"), 0),
        ("Every claim is on record", count("count_miscounted"), 0),
        (
            "Duplicates changed nothing: only overwritten objects were applied twice",
            count("count_applied_twice"),
            story.overwritten,
        ),
        ("Every success rests on an applied attempt", count("count_wrong_successes"), 0),
        ("Workers that lost their lease were fenced", count("count_fenced_workers"), fenced),
        ("… and wrote nothing afterwards", count("count_written_after_fence"), 0),
        (
            "The killer is held for a person",
            count("count_among", status="quarantined", rows=[story.killer]),
            1,
        ),
        (
            "… and harmed no neighbour",
            count("count_among", status="succeeded", rows=list(story.neighbours)),
            len(story.neighbours),
        ),
        (
            "Whatever governance rejects is held",
            count("count_held_for", error_code="governance_hard_fail"),
            story.hard_fails,
        ),
        ("What cannot succeed stays visible as failed", count("count_failed"), story.broken),
        (
            "Parked units ran once their dataset was on again",
            count("count_among", status="succeeded", rows=list(story.parked)),
            len(story.parked),
        ),
        ("Nothing is left half-done", count("count_in_hand"), 0),
        ("The audit log is sealed and unbroken", len(verifier.faults) + unsealed, 0),
    )
    proofs = [Proof(promise=text, found=found, expected=want) for text, found, want in checks]
    refused = Proof(
        promise="The zombie's late write was refused",
        found=int(story.zombie_refused),
        expected=1,
    )
    return [*proofs[:8], refused, *proofs[8:]]
