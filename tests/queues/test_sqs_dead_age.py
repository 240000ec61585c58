"""How long dead letters wait: SQS does not tell, so the ledger does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.health import read_health
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.ledger.vocabulary import Intent
from tallgrass.storage.inventory_store import InventoryStore
from tallgrass.telemetry import names
from tallgrass.telemetry.gauges import gauge_readings
from tests.intake.notifications import parsed
from tests.pipeline.scene import message_of, thing
from tests.queues.test_sqs_worker import MAX_RECEIVE_COUNT, SqsPipeline
from tests.support.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.aws import AwsServer

DAY_S = 86_400


@pytest.fixture(params=["ministack", "moto"])
def pipeline(
    request: pytest.FixtureRequest, tmp_path: Path, aws_environment: None
) -> Iterator[SqsPipeline]:
    """A pipeline on SQS, by either emulator."""
    server: AwsServer = request.getfixturevalue(request.param)
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    made = SqsPipeline(backend, tmp_path, server)
    # The ledger goes by the same clock as whoever reads the gauges.
    made.stores = backend.open(made.rules, catalogue=default_catalogue(), clock=made.clock)
    made.new_worker()
    with made.endpoint:
        yield made
        backend.close()


def gauges(pipeline: SqsPipeline) -> dict[str, Any]:
    """Read the gauges as a scrape of this queue does."""
    config = load_config(
        environment={},
        flags={
            "database.url": pipeline.backend.url,
            "queue.url": pipeline.made.arn,
            "queue.endpoint_url": pipeline.server.url,
            "queue.name": "nodd-primary",
        },
    )
    health = read_health(config, pipeline.stores, default_catalogue(), clock=pipeline.clock)
    found = gauge_readings(health)
    return {
        name: found[name].get(("nodd-primary",)) for name in (names.DLQ_DEPTH, names.DLQ_OLDEST)
    }


def die(pipeline: SqsPipeline, number: int) -> None:
    """Announce an object without content, until its message is among the dead letters."""
    pipeline.new_worker()
    pipeline.put(thing(number), content=b"")
    pipeline.announce(thing(number), size=0)
    for _ in range(MAX_RECEIVE_COUNT + 1):
        pipeline.worker.run_messages()


def test_a_dead_letter_is_as_old_as_the_last_attempt_of_its_unit(pipeline: SqsPipeline) -> None:
    """Two units fail a day apart: the letter of the first has waited for a day and an hour."""
    pipeline.feed(thing(7))
    pipeline.worker.run_messages()
    assert gauges(pipeline) == {names.DLQ_DEPTH: 0, names.DLQ_OLDEST: None}
    die(pipeline, 1)
    pipeline.clock.advance(DAY_S)
    die(pipeline, 2)
    pipeline.clock.advance(3600)
    assert pipeline.statuses() == {"succeeded": 1, "failed": 2}
    assert gauges(pipeline) == {names.DLQ_DEPTH: 2, names.DLQ_OLDEST: DAY_S + 3600}


def test_what_no_message_brought_is_no_dead_letter(pipeline: SqsPipeline) -> None:
    """A listed unit failed, and a letter is there that tells of no unit: nobody knows its age."""
    empty = thing(1)
    pipeline.put(empty, content=b"")
    (listed,) = parsed(message_of(empty.event(size=0))).units
    InventoryStore(
        pipeline.stores.runner,
        pipeline.rules,
        worker_id="lister",
        run_id="11111111-1111-4111-8111-111111111111",
        intent=Intent.INGEST,
    ).record_due([listed])
    pipeline.worker.run_due()
    assert pipeline.statuses() == {"failed": 1}
    pipeline.server.client("sqs").send_message(QueueUrl=pipeline.made.dead_url, MessageBody="{}")
    pipeline.clock.advance(DAY_S)
    assert gauges(pipeline) == {names.DLQ_DEPTH: 1, names.DLQ_OLDEST: None}
    die(pipeline, 2)
    pipeline.clock.advance(3600)
    assert gauges(pipeline) == {names.DLQ_DEPTH: 2, names.DLQ_OLDEST: 3600}
