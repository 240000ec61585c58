"""Publications that are repeated, and what an event may be."""

from __future__ import annotations

import random
import sqlite3
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tallgrass.errors import IdempotencyConflict, PayloadRefused
from tallgrass.outbox import Artifact, Event, PayloadRules, Routing, publish, publish_all
from tallgrass.outbox.publication import Prepared, prepare
from tests.outbox.callers import (
    ARTIFACT,
    CHECKSUM,
    URI,
    Caller,
    DriverCaller,
    counts,
    event,
    nothing,
    once,
)
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.backends import Backend


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
