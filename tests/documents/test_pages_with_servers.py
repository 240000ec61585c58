"""Pages that need a bucket, SQS or a PostgreSQL server: all on loopback."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.documents.running import LONG_S
from tests.pipeline.scene import message_of, thing
from tests.plugins.postgres_server import wheel_binaries
from tests.support.aws import ENVIRONMENT
from tests.support.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.documents.demo_world import DemoWorld
    from tests.plugins.postgres_server import PostgresServer
    from tests.support.aws import AwsServer

ADDRESS = "postgresql://tallgrass@db.example"


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


@pytest.mark.usefixtures("aws_environment")
def test_a_bucket_is_followed(world: DemoWorld, ministack: AwsServer) -> None:
    """follow.md: an object of this hour in a public bucket, read unsigned, is in the catalog."""
    now = datetime.now(UTC)
    second = f"{now:%Y%j%H%M%S}"
    name = f"OR_GLM-L2-LCFA_G19_s{second}0_e{second}9_c{second}9.nc"
    key = f"GLM-L2-LCFA/{now:%Y/%j/%H}/{name}"
    bucket = ministack.client("s3")
    bucket.create_bucket(Bucket="noaa-goes19")
    bucket.put_object(Bucket="noaa-goes19", Key=key, Body=thing().content)
    # The demo's own file names a folder; without it the cloud is the default.
    cloud = {"TALLGRASS_OBJECTS_URL": "cloud", "TALLGRASS_OBJECTS_ENDPOINT_URL": ministack.url}
    world.variables |= {**ENVIRONMENT, **cloud}
    world.play("how-to/follow.md")
    found = "SELECT status FROM wal_records WHERE object_uri = ?"
    uri = f"s3://noaa-goes19/{key}"
    wait_until(lambda: world.backend.sql(found, uri) == [("succeeded",)])
    world.stop()


@pytest.mark.usefixtures("aws_environment")
def test_workers_on_sqs_and_postgresql(
    world: DemoWorld, ministack: AwsServer, postgres_url: str
) -> None:
    """many-workers.md, queues.md: workers of several hosts share one queue and one ledger."""
    backend = prepare("postgres", postgres_url)
    made = ministack.make_queue()
    world.put(thing())
    ministack.client("sqs").send_message(
        QueueUrl=made.url, MessageBody=message_of(thing().event()).decode()
    )
    world.variables |= {**ENVIRONMENT, "TALLGRASS_QUEUE_ENDPOINT_URL": ministack.url}
    world.replaced |= {
        f"{ADDRESS}/ledger": postgres_url,
        "https://sqs.us-east-1.amazonaws.com/123456789012/nodd-primary": made.url,
        "arn:aws:sqs:us-east-1:123456789012:nodd": made.arn,
        "--metrics-port 9470": "--metrics-port 0",
    }
    assert len(world.play("how-to/many-workers.md", "sh")) == 3
    assert len(world.play("concepts/queues.md")) == 1
    wait_until(lambda: backend.sql("SELECT status FROM wal_records") == [("succeeded",)])
    assert len(world.stop()) == 2
    backend.close()


def test_a_ledger_from_its_role_to_its_backup(
    world: DemoWorld, own_postgres: PostgresServer
) -> None:
    """postgresql.md, backup.md: role, database, tables, a ledger moved, dumped and restored."""
    (records,) = world.backend.sql("SELECT count(*) FROM wal_records")[0]
    world.tokens.clear()
    world.given = "a password\na password\n"
    world.programs.append(wheel_binaries())
    world.variables |= {"PGHOST": str(own_postgres.folder), "PGUSER": "postgres"}
    at = f"?host={own_postgres.folder}"
    world.replaced |= {
        f"{ADDRESS}/ledger": f"postgresql://tallgrass@/ledger{at}",
        f"{ADDRESS}/restored": f"postgresql://tallgrass@/restored{at}",
        "sqlite:///tallgrass.db": "sqlite:///ledger.db",
    }
    assert len(world.play("how-to/postgresql.md")) == 7
    assert len(world.play("how-to/backup.md", "sh")) == 4
    for name in ("ledger", "restored"):
        with psycopg.connect(f"postgresql://tallgrass@/{name}{at}") as connection:
            assert connection.execute("SELECT count(*) FROM wal_records").fetchone() == (records,)
