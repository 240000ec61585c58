"""Lineage: valid documents that say what governs the data, once each execution, from the log."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyshacl
import pytest
from rdflib import RDF, BNode, Graph, Namespace, URIRef

from tallgrass.errors import NodeFailed, NodeWalDamaged, TransientError, ValidationError
from tallgrass.nodes import NodeHooks, RetryPolicy
from tallgrass.nodes.entries import Kind
from tallgrass.nodes.lineage import FileLineage, Lineage, rebuild
from tallgrass.nodes.lineage_facts import task_uuid
from tallgrass.nodes.wal_store import WalStore
from tests.nodes.governed import governed_gate
from tests.nodes.lineage_roles import PLACES, play
from tests.nodes.running import Watched, failing_first
from tests.stac import schemas
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

# rdflib's own JSON-LD reader and pySHACL use names that rdflib itself calls outdated.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(Graph|Dataset).* is deprecated:DeprecationWarning"
)

SHAPES = Path(__file__).resolve().parents[1] / "shapes" / "node_prov.ttl"
PROV = Namespace("http://www.w3.org/ns/prov#")
KFM = Namespace("urn:kfm:ns:")
OPENLINEAGE, PROVENANCE = "openlineage.ndjson", "prov.ndjson"
WELLS = {"dataset": "tribal_wells", "reads": ("wells/2026",), "writes": ("s3://lake/wells/out",)}
RIVERS = {
    "dataset": "river_flow",
    "data_version": "contract-4",
    "reads": ("river_flow/gauge-7", "https://data.example/dcat/42"),
    "writes": ("smoothed/gauge-7",),
}


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners that write lineage into files."""
    made = Watched(tmp_path / "nodes")
    made.options["hooks"] = NodeHooks(lineage=Lineage(FileLineage(tmp_path / "lineage")))
    made.options["gate"] = governed_gate()
    yield made
    made.close()


def run(watched: Watched, node: Any = lambda _: {"y": 2}, **options: Any) -> Any:
    """Run a node of the open dataset."""
    runner = watched.runner(run_id=options.pop("run_id", "run-1"), env="stage")
    given = {"node_id": "smooth", "code_version": "v1", "inputs": {"x": 1}, **RIVERS, **options}
    return runner.run(exec_fn=node, **given)


def lines(watched: Watched, name: str, run_id: str = "run-1") -> list[Any]:
    """What a file of lineage holds."""
    path = watched.root.parent / "lineage" / run_id / name
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def fail(watched: Watched, **options: Any) -> None:
    """Let a node fail for good, saying what must not be told."""
    node = failing_first(9, lambda: ValidationError("a well at 38.97171, -95.23531"))
    with pytest.raises(ValidationError):
        run(watched, node, **options)


@pytest.mark.conformance("C-44", "NR-8.2", "NR-11.3")
def test_every_event_and_facet_passes_its_published_schema(watched: Watched) -> None:
    """Of a success, a hit, a failure, and of data that are sovereign."""
    run(watched)
    run(watched, run_id="run-2")
    fail(watched, node_id="bad", **WELLS)
    run(watched, node_id="wells", **WELLS)
    events = [*lines(watched, OPENLINEAGE), *lines(watched, OPENLINEAGE, "run-2")]
    assert [each["eventType"] for each in events] == [
        *("START", "COMPLETE", "START", "FAIL", "START", "COMPLETE", "START", "COMPLETE")
    ]
    for event in events:
        assert schemas.openlineage_errors(event, event["schemaURL"]) == []
        assert event["schemaURL"].startswith("https://openlineage.io/spec/2-0-2/")
        for facet in _facets(event):
            assert schemas.openlineage_errors(facet, facet["_schemaURL"]) == []
        assert {"kfm_care", "kfm_sovereignty", "kfm_policy", "kfm_data_contract"} <= set(
            event["run"]["facets"]
        )


def _facets(event: Any) -> Iterator[Any]:
    yield from event["run"]["facets"].values()
    yield from event["job"]["facets"].values()
    for each in (*event["inputs"], *event["outputs"]):
        yield from each.get("facets", {}).values()


@pytest.mark.conformance("C-44", "NR-8.2")
def test_an_event_names_run_job_and_datasets(watched: Watched) -> None:
    """Ids are those that Python's own uuid module gives; datasets those that the node declares."""
    run(watched, failing_first(2, lambda: TransientError("later")), task_id="t-9")
    start, complete = lines(watched, OPENLINEAGE)
    pipeline = uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_URL, "urn:kfm:nodes"), "9:hydrology,")
    for event in (start, complete):
        assert event["run"]["runId"] == str(uuid.uuid5(pipeline, "5:run-1,6:smooth,3:t-9,"))
        parent = event["run"]["facets"]["parent"]
        assert parent["run"]["runId"] == str(uuid.uuid5(pipeline, "5:run-1,"))
        assert parent["job"] == {"namespace": "kfm-nodes", "name": "hydrology"}
        assert (event["job"]["namespace"], event["job"]["name"]) == (
            "kfm-nodes",
            "hydrology.smooth",
        )
        assert event["inputs"] == [
            {"namespace": "kfm-nodd", "name": "river_flow/gauge-7"},
            {"namespace": "https://data.example", "name": "dcat/42"},
        ]
    attempts = watched.view("run-1/smooth/attempts.json")
    post = watched.view("run-1/smooth/post.json")
    assert (start["eventTime"], complete["eventTime"]) == (attempts[0]["started_at"], post["at"])
    assert start["outputs"] == []
    ((output,),) = (complete["outputs"],)
    assert (output["namespace"], output["name"]) == ("kfm-nodd", "smoothed/gauge-7")
    assert output["facets"]["version"]["datasetVersion"] == post["result_hash"]
    node = complete["run"]["facets"]["kfm_node"]
    assert (node["attempts"], node["fromCache"], node["env"]) == (3, False, "stage")
    assert (node["runId"], node["nodeId"], node["taskId"]) == ("run-1", "smooth", "t-9")


@pytest.mark.conformance("NR-11.3")
def test_what_governs_the_data_stands_on_every_event(watched: Watched) -> None:
    """Care label and reference, sovereignty, policy and contract, as the policy declares them."""
    fail(watched, **WELLS)
    for event in lines(watched, OPENLINEAGE):
        facets = event["run"]["facets"]
        care, policy = facets["kfm_care"], facets["kfm_policy"]
        assert (care["careLabel"], care["governanceRef"]) == ("restricted", "council/2026-7")
        assert facets["kfm_sovereignty"]["sovereignty"]["nation"] == "Prairie Band Potawatomi"
        assert facets["kfm_sovereignty"]["declared"] is True
        assert policy["policyId"] == "policy/wells-3"
        assert facets["kfm_data_contract"]["dataset"] == "tribal_wells"
    run(watched, run_id="run-2")
    for event in lines(watched, OPENLINEAGE, "run-2"):
        facets = event["run"]["facets"]
        assert facets["kfm_care"]["careLabel"] == "public"
        assert facets["kfm_sovereignty"]["declared"] is False
        assert facets["kfm_data_contract"]["dataVersion"].startswith("contract-4+")


def test_a_failure_says_what_failed_and_no_text_of_it(watched: Watched) -> None:
    """Type, code and why; the error's own words stay in the log."""
    fail(watched)
    fail(watched, node_id="wells", **WELLS)
    for path in (watched.root.parent / "lineage").rglob("*.ndjson"):
        assert "38.97" not in path.read_text()
    failed = [each for each in lines(watched, OPENLINEAGE) if each["eventType"] == "FAIL"]
    assert len(failed) == 2
    for event in failed:
        message = event["run"]["facets"]["errorMessage"]["message"]
        assert message == (
            "tallgrass.errors.ValidationError (node_validation_failed): "
            "it is listed as never retried"
        )
        assert event["outputs"] == []


def test_of_sensitive_data_no_hash_is_told(watched: Watched) -> None:
    """Whoever knows a hash of a place can find the place by trying all of them."""
    run(watched, **WELLS)
    pre, post = (watched.view(f"run-1/smooth/{name}.json") for name in ("pre", "post"))
    told = "".join(path.read_text() for path in (watched.root.parent / "lineage").rglob("*.ndjson"))
    for secret in (pre["inputs_hash"], post["result_hash"], pre["task_id"], pre["identity"]):
        assert secret[:20] not in told
    assert "tribal_wells" in told


def test_of_sensitive_data_no_name_can_be_found_by_trying(watched: Watched) -> None:
    """Ids and keys of two runs on one place share nothing that whoever knows the place could make.

    All that a document tells of the run is known to its reader, and all that is not is the place.
    """
    run(watched, **WELLS)
    first, noted = _named_in(watched)
    journal = WalStore(watched.root / "wal")
    (task,) = journal.read("run-1").tasks
    assert task_uuid("hydrology", "run-1", task) not in first
    rebuild("run-1", journal.entries("run-1"), FileLineage(watched.root.parent / "again"))
    kept, again = (watched.root.parent / name / "run-1" for name in ("lineage", "again"))
    for name in (OPENLINEAGE, PROVENANCE):
        assert (again / name).read_bytes() == (kept / name).read_bytes()
    watched.close()
    for folder in (watched.root, kept.parent):
        shutil.rmtree(folder)
    run(watched, **WELLS)
    second, noted_then = _named_in(watched)
    assert not first & second
    assert not noted & noted_then


def _named_in(watched: Watched) -> tuple[set[str], set[str]]:
    """The ids of the task in its documents, and the keys under which they are handed on."""
    (_, complete), (document,) = lines(watched, OPENLINEAGE), lines(watched, PROVENANCE)
    (activity,) = [each for each in document["@graph"] if "kfm:nodeActivity" in each["@type"]]
    (task,) = WalStore(watched.root / "wal").read("run-1").tasks.values()
    (entry,) = task.lineage
    ids = {complete["run"]["runId"], activity["@id"], *activity["generated"]}
    return ids, set(entry.body["noted"]["documents"])


def test_an_address_that_is_none_is_an_id(watched: Watched) -> None:
    """What cannot be taken apart is named as it stands, and no document is lost for it."""
    run(watched, reads=("http://[gauge", "urn:gauge:7"))
    start, _ = lines(watched, OPENLINEAGE)
    assert start["inputs"] == [
        {"namespace": "kfm-nodd", "name": "http://[gauge"},
        {"namespace": "kfm-nodd", "name": "urn:gauge:7"},
    ]
    ids = {each["@id"] for each in lines(watched, PROVENANCE)[0]["@graph"]}
    assert {"urn:kfm:dataset:http%3A//%5Bgauge", "urn:gauge:7"} <= ids


@pytest.mark.conformance("NR-8.1")
def test_provenance_is_a_graph_that_passes_its_shapes(watched: Watched) -> None:
    """Inputs and outputs are entities, by another program's reader, of successes and failures."""
    run(watched)
    run(watched, run_id="run-2")
    fail(watched, run_id="run-3", **WELLS)
    documents = [lines(watched, PROVENANCE, each)[0] for each in ("run-1", "run-2", "run-3")]
    graphs = [Graph().parse(data=json.dumps(each), format="json-ld") for each in documents]
    for graph in graphs:
        assert not [each for triple in graph for each in triple if isinstance(each, BNode)]
        assert pyshacl.validate(graph, shacl_graph=str(SHAPES))[0]
    post = watched.view("run-1/smooth/post.json")
    pre = watched.view("run-1/smooth/pre.json")
    graph, hit, failed = graphs
    (activity,) = graph.subjects(RDF.type, PROV.Activity)
    (result,) = graph.subjects(RDF.type, KFM.nodeResult)
    (given,) = graph.subjects(RDF.type, KFM.nodeInput)
    assert (activity, PROV.generated, result) in graph
    assert (result, PROV.wasDerivedFrom, given) in graph
    assert (activity, PROV.used, URIRef("urn:kfm:dataset:river_flow/gauge-7")) in graph
    assert (activity, PROV.used, URIRef("https://data.example/dcat/42")) in graph
    (version,) = graph.subjects(RDF.type, KFM.datasetVersion)
    assert (version, PROV.specializationOf, URIRef("urn:kfm:dataset:smoothed/gauge-7")) in graph
    assert str(graph.value(result, KFM.sha256)) == post["result_hash"]
    assert str(graph.value(given, KFM.sha256)) == pre["inputs_hash"]
    assert [str(each) for each in graph.objects(None, KFM.fromCache)] == ["false"]
    assert [str(each) for each in hit.objects(None, KFM.fromCache)] == ["true"]
    assert not list(failed.triples((None, PROV.generated, None)))
    # No entity is made twice, whoever made the same bytes.
    assert not set(graph.objects(None, PROV.generated)) & set(hit.objects(None, PROV.generated))


@pytest.mark.parametrize(
    "term", ["used", "generated", "wasAssociatedWith", "kfm:careLabel", "prov:endedAtTime"]
)
def test_a_broken_document_does_not_pass(watched: Watched, term: str) -> None:
    """Each thing that the activity must say is missed when it is gone."""
    run(watched)
    (document,) = lines(watched, PROVENANCE)
    del document["@graph"][0][term]
    graph = Graph().parse(data=json.dumps(document), format="json-ld")
    assert not pyshacl.validate(graph, shacl_graph=str(SHAPES))[0]


@pytest.mark.conformance("C-40")
def test_a_hit_of_the_cache_leaves_lineage_of_its_own(watched: Watched) -> None:
    """Under the run that was served, with no attempt, and noted in its log."""
    run(watched)
    run(watched, lambda _: pytest.fail("the cache had it"), run_id="run-2")
    (first, _), (start, complete) = (
        lines(watched, OPENLINEAGE),
        lines(watched, OPENLINEAGE, "run-2"),
    )
    assert start["run"]["runId"] == complete["run"]["runId"] != first["run"]["runId"]
    node = complete["run"]["facets"]["kfm_node"]
    assert (node["attempts"], node["fromCache"]) == (0, True)
    (noted,) = watched.runners[-1].wal.read("run-2").tasks.values()
    (entry,) = noted.lineage
    assert entry.body["noted"]["openlineage_run_id"] == start["run"]["runId"]
    assert noted.post is not None
    assert noted.post.body["attempt"] == 0


@pytest.mark.conformance("NR-3.7")
@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
@pytest.mark.parametrize("place", PLACES)
def test_lineage_is_emitted_once_whenever_its_process_is_killed(
    tmp_path: Path,
    place: str,
    fails: bool,  # noqa: FBT001
) -> None:
    """Before, within or after handing on: a resume makes up for it, with the very same bytes."""
    root = tmp_path / "run"
    command = [sys.executable, "-m", "tests.nodes.lineage_roles", str(root), place]
    child = subprocess.run(
        [*command, "fails" if fails else "succeeds"], cwd=ROOT, check=False, capture_output=True
    )
    if place != "never":
        assert child.returncode == -signal.SIGKILL
    for _ in range(2):
        if fails:
            with pytest.raises(NodeFailed):
                play(root, "never", fails=True)
        else:
            assert play(root, "never") == {"x": 2}
    folder = root / "lineage" / "run"
    events = (folder / OPENLINEAGE).read_bytes().splitlines()
    assert [json.loads(each)["eventType"] for each in events] == [
        "START",
        "FAIL" if fails else "COMPLETE",
    ]
    assert len((folder / PROVENANCE).read_bytes().splitlines()) == 1
    assert (root / "calls").read_text() == "called\n"
    again = FileLineage(tmp_path / "again")
    store = WalStore(root / "wal")
    assert rebuild("run", store.entries("run"), again) == 3
    for name in (OPENLINEAGE, PROVENANCE):
        made = (tmp_path / "again" / "run" / name).read_bytes()
        assert made == (folder / name).read_bytes()


@pytest.mark.conformance("NR-5.9")
def test_lineage_of_a_run_is_rebuilt_from_its_journal_alone(watched: Watched) -> None:
    """Retries, hits, failures, cleared ones, tasks and other code: the same bytes, file by file."""

    class Anyone:
        def allow_clearing(self, approval: str, run_id: str, task: Any) -> None:
            pass

    watched.options["approvals"] = Anyone()
    run(watched, run_id="run-0")
    run(watched)
    run(watched, failing_first(1, lambda: TransientError("x")), inputs={"x": 2}, node_id="retried")
    fail(watched, node_id="bad", **WELLS)
    watched.runners[-1].clear(run_id="run-1", node_id="bad", approval="a-1")
    run(watched, node_id="bad", **WELLS)
    run(watched, node_id="bad", code_version="v2", **WELLS)
    for task in ("a", "b"):
        run(watched, node_id="fan", task_id=task, inputs={"x": task})
    with pytest.raises(TransientError):
        run(
            watched,
            failing_first(9, lambda: TransientError("x")),
            node_id="spent",
            retry=RetryPolicy(max_attempts=2),
        )
    folder = watched.root.parent / "lineage"
    before = {path: path.read_bytes() for path in folder.rglob("*.ndjson")}
    assert len(before[folder / "run-1" / PROVENANCE].splitlines()) == 8
    for runner in watched.runners:
        runner.close()
    shutil.rmtree(folder)
    shutil.rmtree(watched.root / "cache")
    wal = WalStore(watched.root / "wal")
    made = [rebuild(each, wal.entries(each), FileLineage(folder)) for each in ("run-0", "run-1")]
    # A failure and the success after it have one START.
    assert made == [3, 23]
    assert {path: path.read_bytes() for path in folder.rglob("*.ndjson")} == before
    assert rebuild("run-1", wal.entries("run-1"), FileLineage(folder)) == 0


@pytest.mark.conformance("NR-3.6")
def test_a_result_is_stored_with_a_hash_that_is_checked_when_read(watched: Watched) -> None:
    """The hash in the log is that of the value; another value under it is refused."""
    run(watched)
    post = watched.view("run-1/smooth/post.json")
    assert post["result"] == {"y": 2}
    # By another tool: printf '{"y":2}' | sha256sum
    assert post["result_hash"] == "9a51a7767c3d6fbab05a874b052aa49174a280702a278208810f9cd1a9ef3afa"
    with watched.runners[-1].wal.run("run-1") as log:
        (task,) = log.state.tasks.values()
        assert task.post is not None
        log.commit(log.append(Kind.POST, task.id, {**task.post.body, "result": {"y": 3}}))
    with pytest.raises(NodeWalDamaged):
        run(watched)
