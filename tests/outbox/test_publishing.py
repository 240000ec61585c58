"""Publishing from a transaction of the caller's own: state, artifact and event, or none."""

from __future__ import annotations

import contextlib
import inspect
import random
import sqlite3
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import tallgrass.outbox
from tallgrass.errors import (
    DatabaseUnusable,
    IdempotencyConflict,
    InvalidInput,
    NoTransaction,
    PayloadRefused,
    TallgrassError,
)
from tallgrass.outbox import Artifact, Event, PayloadRules, Routing, publish, publish_all
from tallgrass.outbox.publication import Prepared, prepare
from tallgrass.outbox.routing import parse_routing
from tests.outbox.callers import (
    ARTIFACT,
    CHECKSUM,
    URI,
    WRITTEN,
    Caller,
    DriverCaller,
    counts,
    engine_of,
    event,
    nothing,
    once,
)
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.backends import Backend

#: By hand: keys in order, no blanks, the label added.
PAYLOAD = f'{{"artifact_uri":"{URI}","care_label":"public","checksum":"{CHECKSUM}"}}'.encode()


class TestOneTransaction:
    """All three writes are the caller's transaction, whoever's connection it is."""

    @pytest.mark.conformance("OB-3.1", "OB-3.2", "OB-1.0", "OB-1.1")
    def test_state_artifact_and_event_appear_together(self, caller: Caller) -> None:
        """Nothing is to be seen before the commit, everything after it."""
        with caller.transaction() as handle:
            caller.change_state(handle)
            published = publish(handle, event(), artifact=ARTIFACT)
            assert counts(caller.backend) == nothing()
        assert counts(caller.backend) == once()
        (row,) = caller.backend.rows("SELECT * FROM outbox")
        assert [row["outbox_id"]] == list(published.outbox_ids)
        assert not published.duplicate

    @pytest.mark.conformance("OB-3.2", "OB-3.3", "OB-1.0", "OB-1.1")
    def test_an_abort_leaves_nothing(self, caller: Caller) -> None:
        """A transaction that ends in an error after the publication leaves none of the three."""

        def abort() -> None:
            with caller.transaction() as handle:
                caller.change_state(handle)
                publish(handle, event(), artifact=ARTIFACT)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            abort()
        assert counts(caller.backend) == nothing()

    @pytest.mark.conformance("OB-3.1", "OB-3.2", "OB-3.3")
    def test_each_statement_that_fails_undoes_all(self, caller: Caller) -> None:
        """Whichever of the writes the database refuses, nothing of the transaction is there."""

        def publish_one() -> None:
            with caller.transaction() as handle:
                caller.change_state(handle)
                publish(handle, event(), artifact=ARTIFACT)

        for table in WRITTEN:
            with refused_inserts(caller.backend, table), pytest.raises(TallgrassError):
                publish_one()
            assert counts(caller.backend) == nothing(), table
        publish_one()
        assert counts(caller.backend) == once()

    @pytest.mark.conformance("OB-3.1", "OB-3.3")
    def test_a_failure_that_is_swallowed_leaves_no_half(self, pipeline_backend: Backend) -> None:
        """A caller that goes on after the error commits its state, but no part of the event."""
        caller = DriverCaller(pipeline_backend)
        for number, table in enumerate(WRITTEN, start=1):
            with refused_inserts(pipeline_backend, table), caller.transaction() as handle:
                caller.change_state(handle)
                with contextlib.suppress(TallgrassError):
                    publish(handle, event(), artifact=ARTIFACT)
            # PostgreSQL turns such a commit into a rollback.
            kept = number if pipeline_backend.name == "sqlite" else 0
            assert counts(pipeline_backend) == nothing(pipeline_state=kept), table

    @pytest.mark.conformance("OB-2.1", "OB-2.2", "OB-2.3", "OB-2.4", "C-33", "C-36")
    def test_every_field_of_the_record_is_written(self, caller: Caller) -> None:
        """Fields are those of the specification; the payload is stored as it will be sent."""
        with caller.transaction() as handle:
            publish(
                handle,
                event(care_label="restricted", governance_ref="CR-7", subject="flow-2025"),
                artifact=ARTIFACT,
            )
        (row,) = caller.backend.rows("SELECT * FROM outbox")
        assert uuid.UUID(row["outbox_id"]).version == 7
        assert row.pop("created_at").endswith("Z")
        payload = PAYLOAD.replace(b"public", b"restricted").replace(
            b'"}', b'","governance_ref":"CR-7"}'
        )
        del row["outbox_id"]
        assert row == {
            "subject": "flow-2025",
            "pipeline_id": "hydrology_flow_2025_v10.3.1",
            "event_name": "artifact_published",
            "dataset_id": "hydrology_flow_ks",
            "version": "v10.3.1",
            # By `sha256sum` over the length-prefixed parts.
            "idempotency_key": KEY,
            "target": "file",
            "payload": payload,
            "care_label": "restricted",
            "governance_ref": "CR-7",
        }
        assert caller.backend.sql(
            "SELECT artifact_uri, version, dataset_id, artifact_checksum, idempotency_key"
            " FROM artifact_versions"
        ) == [(URI, "v10.3.1", "hydrology_flow_ks", CHECKSUM, KEY)]
        assert caller.backend.sql(
            "SELECT target, dataset_id, status, attempt, due_at IS NOT NULL FROM outbox_delivery"
        ) in [[("file", "hydrology_flow_ks", "pending", 0, due)] for due in (1, True)]

    @pytest.mark.conformance("OB-2.3")
    def test_one_row_for_each_target(self, caller: Caller) -> None:
        """Targets are those of the routing; their rows share key and payload."""
        routing = parse_routing(
            {"bus": {"kind": "sqs"}, "lake": {"kind": "file"}},
            [{"events": ["artifact_*"], "targets": ["bus", "lake"]}],
        )
        with caller.transaction() as handle:
            published = publish(handle, event(), routing=routing)
        rows = caller.backend.sql(
            "SELECT target, outbox_id, idempotency_key, payload FROM outbox ORDER BY outbox_id"
        )
        assert [row[0] for row in rows] == ["bus", "lake"]
        assert [row[1] for row in rows] == list(published.outbox_ids)
        assert len({row[2:] for row in rows}) == 1

    def test_rows_sort_as_they_were_published(self, caller: Caller) -> None:
        """Ids grow with every event of a transaction, so targets that keep order can."""
        names = [f"step_{number:03}" for number in range(40)]
        with caller.transaction() as handle:
            for name in names[:20]:
                publish(handle, event(event_name=name))
            publish_all(handle, [event(event_name=name) for name in names[20:]])
        found = caller.backend.sql("SELECT event_name FROM outbox ORDER BY outbox_id")
        assert [name for (name,) in found] == names


#: `printf` of the parts, each behind its length in four bytes, through `sha256sum`.
KEY = "sha256:592ffaa9f991e0279bd86548ba7a9ce639b07015a907e70be276ef768abdff95"


@contextlib.contextmanager
def refused_inserts(backend: Backend, table: str) -> Iterator[None]:
    """Make the database refuse every new row of a table."""
    planted = f"CREATE TRIGGER planted BEFORE INSERT ON {table}"
    if backend.name == "sqlite":
        backend.sql(f"{planted} BEGIN SELECT RAISE(ABORT, 'planted'); END")
        drop = "DROP TRIGGER planted"
    else:
        backend.sql(f"{planted} FOR EACH ROW EXECUTE FUNCTION tallgrass_refuse('planted')")
        drop = f"DROP TRIGGER planted ON {table}"
    try:
        yield
    finally:
        backend.sql(drop)


class TestWaysOfConnections:
    """How a caller reads and writes its texts is the caller's own."""

    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    @pytest.mark.parametrize("texts", [bytes, bytearray, lambda raw: raw.decode().upper()])
    def test_sqlite3_that_reads_texts_otherwise(
        self, pipeline_backend: Backend, texts: Callable[[bytes], Any]
    ) -> None:
        """A repetition is known as one, and the connection reads as it did."""
        with contextlib.closing(sqlite3.connect(pipeline_backend.path)) as connection:
            connection.text_factory = texts
            connection.execute("BEGIN")
            first = publish(connection, event(), artifact=ARTIFACT)
            again = publish(connection, event(), artifact=ARTIFACT)
            assert connection.text_factory is texts
            connection.commit()
        assert (again.duplicate, again.outbox_ids) == (True, first.outbox_ids)

    @pytest.mark.parametrize("backend", ["postgres"], indirect=True)
    def test_psycopg_that_reads_texts_as_bytes(self, pipeline_backend: Backend) -> None:
        """Under SQL_ASCII it does, and no repetition would be known: refused before any write."""
        with psycopg.connect(pipeline_backend.url, client_encoding="SQL_ASCII") as connection:
            connection.execute("SELECT 1")
            with pytest.raises(InvalidInput, match=r"client_encoding SQL_ASCII .* TO 'UTF8'"):
                publish(connection, event(), artifact=ARTIFACT)
        assert counts(pipeline_backend) == nothing()

    @pytest.mark.parametrize("backend", ["postgres"], indirect=True)
    def test_psycopg_that_cannot_write_a_character(self, pipeline_backend: Backend) -> None:
        """What the connection can write is published; of the rest it is told what to set."""
        with psycopg.connect(pipeline_backend.url, client_encoding="LATIN1") as connection:
            connection.execute("SELECT 1")
            with pytest.raises(InvalidInput, match=r"client_encoding LATIN1 .* TO 'UTF8'"):
                publish(connection, event(subject="gauge \N{CJK UNIFIED IDEOGRAPH-6CB3}"))
            assert not publish(connection, event(subject="d\u00e9bit")).duplicate
        assert pipeline_backend.sql("SELECT subject FROM outbox") == [("d\u00e9bit",)]

    def test_what_is_asynchronous_is_refused(self) -> None:
        """With what to give instead."""
        with pytest.raises(InvalidInput) as refused:
            publish(psycopg.AsyncConnection.__new__(psycopg.AsyncConnection), event())
        assert str(refused.value).endswith("give one of sqlite3, psycopg or SQLAlchemy")


class TestNoTransaction:
    """Whoever would commit each statement by itself is refused before anything is written."""

    @pytest.mark.conformance("OB-8.2", "OB-3.1")
    def test_a_handle_is_asked_for(self) -> None:
        """Neither call can be made without one, and there is no other way to publish."""
        for function in (publish, publish_all):
            first = next(iter(inspect.signature(function).parameters.values()))
            assert first.name == "transaction"
            assert first.default is inspect.Parameter.empty
        public = [name for name in tallgrass.outbox.__all__ if name[0].islower()]
        assert public == ["publish", "publish_all"]

    @pytest.mark.conformance("OB-8.2")
    @pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
    def test_sqlite3_without_begin(self, pipeline_backend: Backend) -> None:
        """A connection that has not begun, in either of its modes, is refused."""
        for mode in (None, "DEFERRED"):
            with contextlib.closing(
                sqlite3.connect(pipeline_backend.path, isolation_level=mode)
            ) as connection:
                assert refusal(connection) == "no_transaction"
                connection.execute("BEGIN")
                connection.execute("COMMIT")
                assert refusal(connection) == "no_transaction"
        assert counts(pipeline_backend) == nothing()

    @pytest.mark.conformance("OB-8.2")
    @pytest.mark.parametrize("backend", ["postgres"], indirect=True)
    def test_psycopg_without_begin(self, pipeline_backend: Backend) -> None:
        """An idle connection, an autocommitting one and a failed transaction are refused."""
        for autocommit in (True, False):
            with psycopg.connect(pipeline_backend.url, autocommit=autocommit) as connection:
                assert refusal(connection) == "no_transaction"
        with psycopg.connect(pipeline_backend.url) as connection:
            with contextlib.suppress(psycopg.Error):
                connection.execute("SELECT 1 / 0")
            assert refusal(connection) == "no_transaction"
            connection.rollback()
        assert counts(pipeline_backend) == nothing()

    @pytest.mark.conformance("OB-8.2")
    def test_sqlalchemy_without_begin(self, pipeline_backend: Backend) -> None:
        """A connection that has not begun, and one whose driver commits by itself, are refused."""
        engine = engine_of(pipeline_backend)
        with engine.connect() as connection:
            assert refusal(connection) == "no_transaction"
        automatic = engine.execution_options(isolation_level="AUTOCOMMIT")
        with automatic.connect() as connection, connection.begin():
            assert refusal(connection) == "no_transaction"
        engine.dispose()
        assert counts(pipeline_backend) == nothing()

    @pytest.mark.conformance("OB-8.2")
    def test_our_transaction_after_its_end(self, pipeline_backend: Backend) -> None:
        """A handle that was kept is no way around."""
        with pipeline_backend.open().database.transaction() as handle:
            pass
        assert refusal(handle) == "no_transaction"
        assert counts(pipeline_backend) == nothing()

    @pytest.mark.parametrize("handle", [None, "sqlite:///x.db", object()])
    def test_what_is_no_handle(self, handle: object) -> None:
        """Anything else is refused with the kinds that can be used."""
        with pytest.raises(InvalidInput, match="sqlite3, psycopg or SQLAlchemy"):
            publish(handle, event())

    def test_a_database_without_the_tables(self, tmp_path: Path) -> None:
        """The error says which command makes them."""
        with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as connection:
            connection.execute("BEGIN")
            with pytest.raises(DatabaseUnusable) as refused:
                publish(connection, event())
            connection.rollback()
        assert refused.value.code == "schema_missing"
        assert "tallgrass db migrate" in refused.value.about.remedy

    def test_a_server_without_the_tables(self, postgres_databases: Any) -> None:
        """The same on PostgreSQL."""
        url = postgres_databases.create()
        with psycopg.connect(url) as connection:
            connection.execute("SELECT 1")
            with pytest.raises(DatabaseUnusable) as refused:
                publish(connection, event())
            connection.rollback()
        assert refused.value.code == "schema_missing"
        postgres_databases.drop(url)


def refusal(handle: object) -> str:
    """Return the code with which a publication is refused."""
    with pytest.raises(NoTransaction) as refused:
        publish(handle, event(), artifact=ARTIFACT)
    return refused.value.code


class TestRepetition:
    """The key decides: the same again is a duplicate, anything else under it a conflict."""

    @pytest.mark.conformance("OB-5.1", "OB-5.3", "C-35", "OB-1.3")
    def test_the_same_again_returns_the_first_row(self, caller: Caller) -> None:
        """In the same transaction or a later one; the repetition is counted, no row is added."""
        recorder = MemoryRecorder()
        with caller.transaction() as handle:
            caller.change_state(handle)
            first = publish(handle, event(), artifact=ARTIFACT, recorder=recorder)
            again = publish(handle, event(), artifact=ARTIFACT, recorder=recorder)
        assert again.outbox_ids == first.outbox_ids
        assert (first.duplicate, again.duplicate) == (False, True)
        with caller.transaction() as handle:
            later = publish(handle, event(), artifact=ARTIFACT, recorder=recorder)
        assert later == again
        assert counts(caller.backend) == once(outbox_duplicates=2)
        assert recorder.by_labels("nodd_sns.outbox_publications_total") == {
            ("recorded",): 1,
            ("duplicate",): 2,
        }

    @pytest.mark.conformance("OB-5.1")
    def test_keys_outlive_their_rows(self, pipeline_backend: Backend) -> None:
        """A key whose row went to the archive is still known: nothing is told twice."""
        caller = DriverCaller(pipeline_backend)
        with caller.transaction() as handle:
            publish(handle, event())
        connection = pipeline_backend.connect()
        unguarded_delete(pipeline_backend, connection)
        with caller.transaction() as handle:
            again = publish(handle, event())
        assert again.duplicate
        assert again.outbox_ids == ()
        assert counts(pipeline_backend)["outbox"] == 0

    @pytest.mark.conformance("OB-5.2", "C-35")
    def test_anything_else_under_the_key_is_a_conflict(self, caller: Caller) -> None:
        """Nothing of it is written, the transaction can go on, and the refusal is counted."""
        different: list[tuple[dict[str, Any], str]] = [
            ({"payload": {"artifact_uri": URI, "rows": 1}}, "payload_sha256"),
            ({"version": "v10.3.2"}, "version"),
            ({"care_label": "sensitive"}, "care_label"),
            ({"dataset_id": "other", "subject": "hydrology_flow_ks"}, "dataset_id"),
            ({"governance_ref": "CR-8"}, "governance_ref"),
            ({"artifact": Artifact(uri="s3://kfm/other", checksum=CHECKSUM)}, "artifact_uri"),
            ({"event_name": "artifact_withdrawn"}, "event_name"),
            ({"pipeline_id": "another-pipeline"}, "pipeline_id"),
            ({"subject": "another-subject"}, "subject"),
        ]
        own: dict[str, Any] = {"idempotency_key": "my-key", "artifact": ARTIFACT}
        recorder = MemoryRecorder()
        with caller.transaction() as handle:
            publish(handle, event(**own))
        before = counts(caller.backend)
        with caller.transaction() as handle:
            for changes, named in different:
                with pytest.raises(IdempotencyConflict, match=named) as refused:
                    publish(handle, event(**{**own, **changes}), recorder=recorder)
                assert refused.value.code == "idempotency_conflict"
            caller.change_state(handle)
        assert counts(caller.backend) == {**before, "pipeline_state": 1}
        refused_count = recorder.total("nodd_sns.outbox_publications_total", outcome="conflict")
        assert refused_count == len(different)

    @pytest.mark.conformance("OB-5.2")
    def test_an_artifact_has_one_checksum_in_a_version(self, caller: Caller) -> None:
        """Another content under the same address and version is refused, whatever the key."""
        with caller.transaction() as handle:
            publish(handle, event(), artifact=ARTIFACT)
        changed = Artifact(uri=URI, checksum="sha256:" + "0" * 64)
        with caller.transaction() as handle:
            with pytest.raises(IdempotencyConflict, match="another checksum"):
                publish(handle, event(), artifact=changed)
            newer = Artifact(uri=URI, checksum=changed.checksum, version="v10.3.2")
            publish(handle, event(), artifact=newer)
        versions = "SELECT version, artifact_checksum FROM artifact_versions ORDER BY 1"
        assert caller.backend.sql(versions) == [
            ("v10.3.1", CHECKSUM),
            ("v10.3.2", changed.checksum),
        ]

    @pytest.mark.conformance("OB-5.2", "OB-5.3")
    def test_a_batch_is_published_whole_or_not(self, caller: Caller) -> None:
        """One conflict refuses all; repetitions within the batch are told from their first."""
        batch = [event(event_name=name) for name in ("a", "b", "a", "c")]
        with caller.transaction() as handle:
            published = publish_all(handle, batch)
            assert publish_all(handle, []) == []
        assert [each.duplicate for each in published] == [False, False, True, False]
        assert published[2].outbox_ids == published[0].outbox_ids
        assert counts(caller.backend)["outbox"] == 3
        key = published[0].idempotency_key
        bad = [event(event_name="d"), event(payload={"other": 1}, idempotency_key=key)]
        with caller.transaction() as handle:
            with pytest.raises(IdempotencyConflict):
                publish_all(handle, bad)
            caller.change_state(handle)
        assert counts(caller.backend) == nothing(
            idempotency_keys=3, outbox=3, outbox_delivery=3, outbox_duplicates=1, pipeline_state=1
        )


def unguarded_delete(backend: Backend, connection: Any) -> None:
    """Take rows out as an archive would, past the guards."""
    if backend.name == "sqlite":
        for trigger in ("outbox_not_deleted", "outbox_delivery_not_deleted"):
            connection.execute(f"DROP TRIGGER {trigger}")
    else:
        connection.execute("SET session_replication_role = replica")
    connection.execute("DELETE FROM outbox_delivery")
    connection.execute("DELETE FROM outbox")


def wild(characters: int, width: int) -> str:
    """Return a text of characters of so many bytes each, in no order: nothing to compress."""
    first, last = {3: (0x4E00, 0x9FFF), 4: (0x20000, 0x2A6DF)}[width]
    chance = random.Random(f"{characters} {width}")
    return "".join(chr(chance.randint(first, last)) for _ in range(characters))


def prepared(**changes: Any) -> Prepared:
    """Prepare an event with changes."""
    return prepare(event(**changes), PayloadRules(), Routing())


class TestEvents:
    """What an event may be."""

    @pytest.mark.conformance("OB-2.2", "C-33")
    @pytest.mark.parametrize(
        "version",
        ["1.2.3", "v10.3.1", "0.0.0", "1.0.0-rc.1", "v2.0.0-alpha+exp.sha.5114f85", "1.0.0+a-b"],
    )
    def test_semantic_versions_are_taken(self, version: str) -> None:
        """With or without a leading v."""
        assert prepared(version=version).facts.version == version

    @pytest.mark.conformance("OB-2.2", "OB-8.4", "OB-2.3", "C-33")
    @pytest.mark.parametrize(
        "changes",
        [
            *({"version": v} for v in ("", "1.2", "10", "latest", "vv1.2.3", "01.2.3", "1.2.3 ")),
            *({"version": v} for v in ("1.2.3-", "1.2.3-01", "1.2.3+", "V1.2.3", None, 1)),
            *({each: ""} for each in ("pipeline_id", "event_name")),
            *({each: " \t"} for each in ("dataset_id", "subject", "idempotency_key")),
            *({each: "a\0b"} for each in ("dataset_id", "subject", "idempotency_key")),
            *({each: "x" * 513} for each in ("pipeline_id", "subject", "idempotency_key")),
            {"version": f"1.0.0-{'x' * 507}"},
            {"artifact": Artifact(uri=URI, checksum=CHECKSUM, version=f"1.0.0-{'x' * 507}")},
            {"idempotency_key": ""},
            {"governance_ref": ""},
            {"care_label": "secret"},
            {"care_label": ""},
            {"payload": ["a"]},
            {"sovereignty": ["a"]},
            *({each: ["a"]} for each in ("pipeline_id", "event_name", "dataset_id", "version")),
            {"artifact": Artifact(uri="", checksum=CHECKSUM)},
            {"artifact": Artifact(uri=URI, checksum=" ")},
            {"artifact": Artifact(uri=URI, checksum=CHECKSUM, version="latest")},
        ],
    )
    def test_what_has_not_its_form_is_refused(self, changes: dict[str, Any]) -> None:
        """The message names the field."""
        with pytest.raises(PayloadRefused) as refused:
            prepared(**changes)
        (name,) = changes
        assert str(refused.value).startswith(name)

    def test_the_longest_texts_that_are_taken_fit_into_every_index(self, caller: Caller) -> None:
        """On PostgreSQL as on SQLite; nothing in them can be compressed."""
        # 4 bytes a character: 2,048 and 512 are all that one index takes.
        longest = {
            "dataset_id": wild(512, 4),
            "subject": wild(512, 4),
            "idempotency_key": wild(128, 4),
            "version": f"1.0.0-{'x' * 506}",
            "artifact": Artifact(uri=wild(512, 4), checksum=wild(512, 4)),
        }
        rules = PayloadRules()
        with caller.transaction() as handle:
            assert not publish(handle, event(**longest), rules=rules).duplicate
            # Without a subject and a key of its own, the dataset and 71 characters stand there.
            for each in ("subject", "idempotency_key", "artifact"):
                longest.pop(each)
            assert not publish(handle, event(**longest, artifact=None), rules=rules).duplicate
        found = caller.backend.sql("SELECT length(subject), length(idempotency_key) FROM outbox")
        assert sorted(found) == [(512, 71), (512, 128)]

    @pytest.mark.parametrize(
        ("subject", "key", "size"), [((512, 3), (512, 3), 3072), ((512, 4), (129, 4), 2564)]
    )
    def test_longer_ones_are_refused_on_both_alike(
        self, caller: Caller, subject: tuple[int, int], key: tuple[int, int], size: int
    ) -> None:
        """By their bytes together, before anything is written; the transaction goes on."""
        with caller.transaction() as handle:
            told = f"^subject and idempotency_key have {size:,} bytes together; at most 2,560"
            with pytest.raises(PayloadRefused, match=told):
                publish(handle, event(subject=wild(*subject), idempotency_key=wild(*key)))
            caller.change_state(handle)
        assert counts(caller.backend) == nothing(pipeline_state=1)

    def test_a_refused_event_leaves_the_transaction_as_it_was(self, caller: Caller) -> None:
        """Neither it nor its neighbours are written, and the caller can go on."""
        with caller.transaction() as handle:
            with pytest.raises(PayloadRefused):
                publish_all(handle, [event(), event(version="latest")])
            caller.change_state(handle)
        assert counts(caller.backend) == nothing(pipeline_state=1)

    def test_lineage_has_no_default_target(self) -> None:
        """An event that nobody wants is refused rather than lost."""
        with pytest.raises(PayloadRefused, match="no route wants") as refused:
            prepared(event_name="openlineage.complete")
        assert refused.value.code == "unknown_target"

    def test_events_are_values(self) -> None:
        """An event that was published cannot be changed afterwards."""
        assert event() == event()
        with pytest.raises(AttributeError):
            event().version = "v2.0.0"  # type: ignore[misc]
        assert isinstance(event(), Event)


@pytest.mark.conformance("OB-1.2")
def test_an_artifact_is_published_only_with_its_event(caller: Caller) -> None:
    """Every registered version leads to a key and to an event; one without is refused."""
    with caller.transaction() as handle:
        for number in range(5):
            artifact = Artifact(uri=f"{URI}.{number}", checksum=CHECKSUM)
            publish(handle, event(), artifact=artifact)
    published = (
        "SELECT count(*) FROM artifact_versions AS a JOIN outbox AS o"
        " ON o.idempotency_key = a.idempotency_key AND o.subject = a.dataset_id"
    )
    assert caller.backend.sql(published) == [(5,)]
    insert: Callable[..., Any] = caller.backend.connect().execute
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.ForeignKeyViolation)):
        insert(
            "INSERT INTO artifact_versions VALUES"
            " ('s3://kfm/x', 'v1.0.0', 'd', 'sha256:1', 'nobody', '2026-01-01T00:00:00.000000Z')"
        )
