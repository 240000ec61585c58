"""What a replay changes: counted, kept field by field, and announced or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import rdflib

import tallgrass
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.planning import open_plan
from tallgrass.bootstrap.previewing import preview
from tallgrass.bootstrap.replaying import RunOptions
from tallgrass.errors import Refused
from tallgrass.replay.comparison import (
    CHANGES_MAX,
    Change,
    Made,
    changes_from,
    changes_text,
    compare,
)
from tallgrass.replay.run import RunState
from tallgrass.telemetry import names
from tests.pipeline.scene import stored, thing
from tests.replay.scene import Replays
from tests.replay.tampering import tamper
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

# rdflib's own JSON-LD reader uses names that rdflib itself calls outdated.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(Graph|Dataset).* is deprecated:DeprecationWarning"
)
PROV = rdflib.Namespace("http://www.w3.org/ns/prov#")
POINTER = "/properties/kfm:policy_ref"


def glm(count: int) -> list[Any]:
    """Return objects of one dataset."""
    return [thing(number) for number in range(count)]


def made(item: bytes, *, activity: str = "a", etag: str = "e", document: bytes = b"{}") -> Made:
    """Return what an attempt made."""
    return Made(activity_id=activity, object_version=(None, etag), item=item, provenance=document)


class TestTheRule:
    """When a difference is a mismatch."""

    @pytest.mark.conformance("WAL-8.8", "C-24")
    @pytest.mark.parametrize(
        ("after", "expected", "mismatch"),
        [
            # The same object, code and configuration: any difference, announced or not.
            (made(b'{"x":1}'), (), False),
            (made(b'{"x":2}'), (), True),
            (made(b'{"x":2}'), ("/x",), True),
            (made(b'{"x":1}', document=b'{"y":1}'), (), True),
            # Other code or configuration: what nobody announced.
            (made(b'{"x":2}', activity="b"), (), True),
            (made(b'{"x":2}', activity="b"), ("/x",), False),
            (made(b'{"x":2}', activity="b"), ("/y",), True),
            (made(b'{"x":{"z":2}}', activity="b"), ("/x",), False),
            (made(b'{"x":1,"xy":2}', activity="b"), ("/x",), True),
            (made(b'{"x":1}', activity="b", document=b'{"y":1}'), (), False),
            # A newer object is other data.
            (made(b'{"x":2}', activity="b", etag="f"), (), False),
        ],
    )
    def test_it_is_one_that_nobody_announced(
        self, after: Made, expected: tuple[str, ...], *, mismatch: bool
    ) -> None:
        """With equal versions every difference; else those outside the named fields."""
        assert compare(made(b'{"x":1}'), after, expected).mismatch is mismatch

    def test_what_is_kept_is_bounded_and_read_back(self) -> None:
        """A hundred fields and two hundred characters of a value; the number is of all."""
        changes = [
            Change(document="item", pointer=f"/{n}", before="x" * 500, after=None, expected=False)
            for n in range(CHANGES_MAX + 5)
        ]
        text = changes_text(changes)
        assert text is not None
        total, kept = changes_from(text)
        assert (total, len(kept)) == (CHANGES_MAX + 5, CHANGES_MAX)
        assert {len(each.before or "") for each in kept} == {200}
        assert changes_text([]) is None
        assert changes_from(None) == (0, ())


@pytest.mark.conformance("WAL-8.8", "RP-8.2", "C-24", "RP-4.2f")
def test_a_stored_field_that_was_changed_is_one_mismatch(backend: Backend, tmp_path: Path) -> None:
    """Of three items one was tampered with: a forced re-run counts one and restores it."""
    replays = Replays(backend, tmp_path)
    done = replays.succeeded(*glm(3))
    kept = stored(backend)["items"]
    (body,) = backend.sql("SELECT body FROM stac_items WHERE wal_id = ?", done[1])[0]
    document = json.loads(bytes(body))
    document["properties"]["kfm:dataset"] = "forged"
    forged = json.dumps(document).encode()
    import hashlib  # noqa: PLC0415 - a forger who knows the hashes

    digest = hashlib.sha256(forged).hexdigest()
    tamper(
        backend,
        "UPDATE stac_items SET body = ?, sha256 = ? WHERE wal_id = ?",
        forged, digest, done[1],
    )  # fmt: skip
    recorder = MemoryRecorder()
    report = replays.again(
        done, forced=True, recorder=recorder, options=RunOptions(mismatches_max=1)
    )
    assert (report.state, report.done, report.mismatches) == (RunState.FINISHED, 3, 1)
    assert recorder.by_labels(names.REPLAY_MISMATCHES) == {("goes-glm",): 1.0}
    assert stored(backend)["items"] == kept
    (row,) = [row for row in replays.rows(report.replay_run_id) if row["mismatch"]]
    assert row["wal_id"] == done[1]
    total, (change,) = changes_from(row["changes"])
    assert (total, change.pointer) == (1, "/properties/kfm:dataset")
    assert (change.before, change.after) == ('"forged"', '"goes-glm"')


class TestAnotherConfiguration:
    """A policy reference that items name from now on."""

    @pytest.mark.conformance("RP-9.3", "C-24")
    def test_a_policy_is_brought_in_and_stamped(self, backend: Backend, tmp_path: Path) -> None:
        """Items and the new activities name it; the run keeps it; announced, nothing mismatches."""
        replays = Replays(backend, tmp_path)
        done = replays.succeeded(*glm(2))
        replays.config = replays.configured({"goes-glm": {"policy_ref": "kfm-pol-2"}})
        report = replays.again(done, policy_ref="kfm-pol-2", expected=(POINTER,))
        assert (report.done, report.hits, report.mismatches) == (2, 0, 0)
        bodies = backend.sql("SELECT body FROM stac_items")
        named = [json.loads(bytes(b))["properties"]["kfm:policy_ref"] for (b,) in bodies]
        assert named == ["kfm-pol-2"] * 2
        documents = [json.loads(bytes(b)) for (b,) in backend.sql("SELECT body FROM provenance")]
        refs = [document["@graph"][0].get("kfm:policyRef") for document in documents]
        assert sorted(refs, key=str) == [None, None, "kfm-pol-2", "kfm-pol-2"]
        assert backend.sql("SELECT policy_ref FROM replay_runs") == [("kfm-pol-2",)]
        assert {row["mismatch"] for row in replays.rows(report.replay_run_id)} <= {0}

    @pytest.mark.conformance("RP-9.3")
    def test_a_policy_that_is_not_in_force_is_not_brought_in(
        self, backend: Backend, tmp_path: Path
    ) -> None:
        """Stamping items with what does not govern them is refused."""
        replays = Replays(backend, tmp_path)
        done = replays.succeeded(thing())
        path = replays.plan_file(replays.select(done, again=True), forced=True, policy_ref="other")
        with pytest.raises(Refused) as caught:
            replays.run(plan_file=path, approval_id=replays.approved(path))
        assert caught.value.code == "policy_ref_differs"
        assert replays.count("replay_runs") == 0

    @pytest.mark.conformance("C-24")
    def test_beyond_the_allowed_mismatches_the_run_is_stopped(
        self, backend: Backend, tmp_path: Path
    ) -> None:
        """Unannounced, the first batch mismatches; no second batch begins, and it can go on."""
        replays = Replays(backend, tmp_path, replay__batch=2)
        done = replays.succeeded(*glm(5))
        replays.config = replays.configured(
            {"goes-glm": {"policy_ref": "kfm-pol-2"}}, replay__batch=2
        )
        path = replays.plan_file(replays.select(done, again=True))
        approval = replays.approved(path)
        report = replays.run(plan_file=path, approval_id=approval)
        assert (report.state, report.done, report.mismatches) == (RunState.MISMATCHED, 2, 2)
        again = replays.run(
            plan_file=path, approval_id=approval, options=RunOptions(mismatches_max=5)
        )
        assert (again.state, again.done, again.mismatches) == (RunState.FINISHED, 5, 5)

    def test_a_preview_tells_what_would_change_and_writes_nothing(
        self, backend: Backend, tmp_path: Path
    ) -> None:
        """Made of the kept evidence: so many items, these fields; the objects are gone by then."""
        replays = Replays(backend, tmp_path)
        given = glm(3)
        done = replays.succeeded(*given)
        before = backend.rows("SELECT * FROM stac_items ORDER BY 1, 2")
        for each in given:
            replays.pipeline.path(each).unlink()
        selection = replays.select(done, again=True)
        for policies, changed in (({}, 0), ({"goes-glm": {"policy_ref": "kfm-pol-2"}}, 3)):
            replays.config = replays.configured(policies)
            stores = replays.opened()
            plan = open_plan(replays.config, stores, replays.request(selection))
            found = preview(replays.config, stores, open_catalogue(replays.config), plan)
            stores.close()
            assert (found.compared, found.changed) == (3, changed)
            assert found.fields == ({POINTER: 3} if changed else {})
        assert backend.rows("SELECT * FROM stac_items ORDER BY 1, 2") == before


def graph_of(backend: Backend) -> rdflib.Graph:
    """Return the provenance of all units as one graph: bodies, and the links of their runs."""
    graph = rdflib.Graph()
    for body, run in backend.sql("SELECT body, run FROM provenance"):
        graph.parse(data=bytes(body), format="json-ld")
        part = json.loads(bytes(run))
        activity, links = rdflib.URIRef(part["activity"]), part["nonDeterministic"]
        if links["wasInformedBy"]:
            graph.add((activity, PROV.wasInformedBy, rdflib.URIRef(links["wasInformedBy"])))
        for item in graph.objects(activity, PROV.generated):
            if links["wasRevisionOf"]:
                graph.add((item, PROV.wasRevisionOf, rdflib.URIRef(links["wasRevisionOf"])))
    return graph


@pytest.mark.conformance("RP-9.4", "RP-1.1")
def test_provenance_only_grows_and_each_re_run_is_linked_to_the_one_before(
    backend: Backend, tmp_path: Path
) -> None:
    """After each of three re-runs the graph holds all that it held, and one linked activity more.

    Each new activity names the one that made the item before, each new item the one it revises.
    """
    replays = Replays(backend, tmp_path)
    (wal_id,) = replays.succeeded(thing())
    before = graph_of(backend)
    (last,) = before.subjects(rdflib.RDF.type, PROV.Activity)
    (made_before,) = before.objects(last, PROV.generated)
    for number in (1, 2, 3):
        replays.config = replays.configured({"goes-glm": {"policy_ref": f"kfm-pol-{number}"}})
        report = replays.again([wal_id], name=f"{number}.jsonl", expected=(POINTER,))
        assert (report.done, report.mismatches) == (1, 0)
        after = graph_of(backend)
        assert all(triple in after for triple in before)
        (new,) = set(after.subjects(rdflib.RDF.type, PROV.Activity)) - set(
            before.subjects(rdflib.RDF.type, PROV.Activity)
        )
        (item,) = after.objects(new, PROV.generated)
        assert (new, PROV.wasInformedBy, last) in after
        assert (item, PROV.wasRevisionOf, made_before) in after
        before, last, made_before = after, new, item


class TestDowngrades:
    """Older code does not make items again, unless it is set so and approved."""

    @pytest.mark.conformance("RP-7.5", "C-28")
    @pytest.mark.parametrize(
        ("allowed", "approved", "runs"),
        [(False, True, False), (True, False, False), (True, True, True)],
    )
    def test_both_the_setting_and_an_approval_are_needed(
        self,
        backend: Backend,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        allowed: bool,
        approved: bool,
        runs: bool,
    ) -> None:
        """Either alone is refused, and the item stays that of the newer code."""
        replays = Replays(backend, tmp_path)
        monkeypatch.setattr(tallgrass, "__version__", "2.0.0")
        stores = replays.opened()
        replays.pipeline.feed(thing())
        replays.pipeline.start(stores=stores).run_messages()
        stores.close()
        (wal_id,) = replays.ids([thing()], "succeeded")
        monkeypatch.setattr(tallgrass, "__version__", "1.9.0")
        replays.config = replays.configured(replay__allow_downgrade=allowed)
        path = replays.plan_file(replays.select([wal_id], again=True))
        (row,) = [json.loads(line) for line in path.read_bytes().splitlines()[1:]]
        assert row["action"] == ("rerun" if allowed else "skip")
        attempts = replays.count("wal_attempts")
        if not allowed:
            # The plan is made to say otherwise, and approved: each unit is asked again.
            assert row["reason"] == "downgrade_refused"
            path.write_bytes(
                path.read_bytes().replace(
                    b'"action":"skip","reason":"downgrade_refused"', b'"action":"rerun"'
                )
            )
        approval = replays.approved(path) if approved else None
        if allowed and not approved:
            with pytest.raises(Refused, match="approval_missing"):
                replays.run(plan_file=path)
        else:
            report = replays.run(plan_file=path, approval_id=approval)
            assert report.done == runs
            assert runs or report.by_reason == {"downgrade_refused": 1}
        assert replays.count("wal_attempts") == attempts + runs
