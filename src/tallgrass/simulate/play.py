"""Plays the demo on a database of its own, from the first table to the proof."""

from dataclasses import dataclass
from pathlib import Path

from tallgrass.bootstrap import LedgerStats, migrate_database
from tallgrass.config import load_config
from tallgrass.governance.audit import Anchor
from tallgrass.simulate.ledger_demo import LedgerDemo, Story, Watcher
from tallgrass.simulate.ledger_proof import Proof, prove


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What is left of a demo when it is over."""

    database: Path
    seed: int
    story: Story
    stats: LedgerStats
    #: Head of the sealed audit chain.
    head: Anchor | None
    proofs: list[Proof]

    @property
    def broken(self) -> list[str]:
        """The promises that do not hold."""
        return [proof.promise for proof in self.proofs if not proof.holds]


def play(database: Path, *, units: int, seed: int, watcher: Watcher) -> DemoResult:
    """Make the tables, tell the story, seal the audit log, and count."""
    # The environment is left out: a demo is the same wherever it runs.
    config = load_config(environment={}, flags={"database.url": f"sqlite:///{database}"})
    migrate_database(config)
    demo = LedgerDemo(config, watcher, units=units, seed=seed)
    try:
        demo.run()
        head = demo.stores.audit.seal()
        return DemoResult(
            database=database,
            seed=seed,
            story=demo.story,
            stats=demo.stores.reader.stats(),
            head=head,
            proofs=prove(demo.stores, demo.story),
        )
    finally:
        demo.stores.close()
