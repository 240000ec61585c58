"""A batch costs a constant number of statements on PostgreSQL, whatever its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.scene import Scene
from tests.support.backends import Backend, prepare
from tests.support.builders import failure, overwritten, success, units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.plugins.postgres import Databases


@pytest.fixture
def postgres(postgres_databases: Databases) -> Iterator[Backend]:
    """A migrated database on PostgreSQL; SQLite runs in the process and has no round trips."""
    template = postgres_databases.template("ledger", lambda url: prepare("postgres", url).close())
    made = Backend("postgres", postgres_databases.create(template))
    yield made
    made.close()
    postgres_databases.drop(made.url)


class Counter:
    """Counts what is sent over a scene's connection."""

    def __init__(self, scene: Scene) -> None:
        with scene.stores.database.reading() as transaction:
            self._connection: Any = transaction.connection  # type: ignore[attr-defined]
        self._execute = self._connection.execute
        self._connection.execute = self._counted
        self.count = 0

    def _counted(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        return self._execute(*arguments, **options)

    def during(self, call: Callable[[], object]) -> int:
        """Return how many statements a call sent."""
        before = self.count
        call()
        return self.count - before


def costs(scene: Scene, counter: Counter, size: int, first: int) -> dict[str, int]:
    """Take a batch of a size through all verbs; return what each one sent."""
    found: dict[str, int] = {}
    claims: list[Any] = []

    def announce(batch: list[Any]) -> None:
        claims[:] = [receipt.claim for receipt in scene.announce(*batch)]

    def due() -> None:
        claims[:] = scene.due(size)

    def commit(outcome: Any) -> None:
        scene.commit(*[outcome(claim) for claim in claims])

    def not_yet(claim: Any) -> Any:
        return failure(claim, "not_ready")

    batch = units(size, first=first)
    newer = [overwritten(number) for number in range(first, first + size)]
    found["record and claim"] = counter.during(lambda: announce(batch))
    found["commit failures"] = counter.during(lambda: commit(failure))
    found["retry"] = counter.during(lambda: announce(batch))
    found["commit not yet"] = counter.during(lambda: commit(not_yet))
    found["claim due"] = counter.during(due)
    assert len(claims) == size
    found["commit successes"] = counter.during(lambda: commit(success))
    found["duplicates"] = counter.during(lambda: scene.announce(*batch))
    found["overwritten"] = counter.during(lambda: announce(newer))
    found["stop"] = counter.during(lambda: scene.stores.leases.stop(scene.worker))
    scene.worker = scene.register()
    due()
    scene.commit(*[success(claim) for claim in claims])
    return found


def test_a_batch_of_500_sends_as_much_as_one_of_10(postgres: Backend) -> None:
    """Record, claim, retry, commit, claim_due, re-run and hand-back: the same count for both."""
    scene = Scene(postgres)
    counter = Counter(scene)
    small = costs(scene, counter, 10, first=0)
    large = costs(scene, counter, 500, first=1000)
    assert small == large
    assert max(small.values()) < 20
    assert min(small.values()) > 3


def test_recovery_sends_as_much_for_500_units_as_for_10(postgres: Backend) -> None:
    """Fencing a worker and freeing what it held does not cost by the unit."""
    scene = Scene(postgres)
    counter = Counter(scene)
    counts = []
    for size, first in ((10, 0), (500, 1000)):
        scene.announce(*units(size, first=first))
        postgres.expire(scene.worker)
        counts.append(counter.during(scene.stores.leases.recover))
        scene.worker = scene.register()
    assert counts[0] == counts[1]
