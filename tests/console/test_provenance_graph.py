from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from tallgrass.console.graphs import provenance, sentences
from tallgrass.views.provenance_graph import Kind, prov_graph


def activity(number: int, *, before: int | None = None, file: str = "a.nc") -> dict[str, Any]:
    """Return one activity as the pipeline writes it: body and run."""
    made, done, used = f"urn:item:{number}", f"urn:done:{number}", f"urn:object:{number}"
    graph = [
        {
            "@id": done,
            "@type": ["prov:Activity", "kfm:noddIngestActivity"],
            "used": used,
            "generated": made,
            "wasAssociatedWith": "urn:prov:agent:pipeline",
            "kfm:codeVersion": "1.2",
        },
        {"@id": "urn:prov:agent:pipeline", "@type": ["prov:Agent", "prov:SoftwareAgent"]},
        {"@id": used, "@type": ["prov:Entity"], "kfm:objectUri": f"s3://bucket/{file}"},
        {
            "@id": made,
            "@type": ["prov:Entity"],
            "wasDerivedFrom": used,
            "wasGeneratedBy": done,
            "wasAttributedTo": "urn:prov:agent:pipeline",
            "kfm:stacItemId": f"item-{number}",
            "kfm:sha256": "ab" * 32,
        },
    ]
    run = {
        "attempt": number,
        "intent": "ingest" if before is None else "reingest",
        "wasInformedBy": None if before is None else f"urn:done:{before}",
        "wasRevisionOf": None if before is None else f"urn:item:{before}",
    }
    return {"body": {"@graph": graph}, "run": {"activity": done, "nonDeterministic": run}}


def test_one_activity_has_four_things_and_five_relations() -> None:
    """By hand: object, activity, item, agent; `generated` says nothing that is not said."""
    graph = prov_graph([activity(1)])
    assert [(node.kind, node.name) for node in graph.nodes] == [
        (Kind.ACTIVITY, "Attempt 1: ingest"),
        (Kind.AGENT, "pipeline"),
        (Kind.ENTITY, "a.nc"),
        (Kind.ENTITY, "item-1"),
    ]
    assert sentences(graph) == [
        "Attempt 1: ingest used a.nc",
        "Attempt 1: ingest was run by pipeline",
        "item-1 was made by Attempt 1: ingest",
        "item-1 was derived from a.nc",
        "item-1 is the work of pipeline",
    ]


def test_a_re_run_is_tied_to_the_one_before_it() -> None:
    """The newer follows the older, its item replaces the older one; the agent is one."""
    graph = prov_graph([activity(2, before=1), activity(1)])
    assert len(graph.of(Kind.AGENT)) == 1
    said = sentences(graph)
    assert "Attempt 2: reingest followed Attempt 1: ingest" in said
    assert "item-2 replaced item-1" in said


def test_what_is_not_there_is_not_pointed_at() -> None:
    """Of a unit with many activities the oldest are left out, and what points at them."""
    graph = prov_graph([activity(9, before=8)])
    assert all("followed" not in each and "replaced" not in each for each in sentences(graph))


def test_documents_of_others_are_taken_as_they_are() -> None:
    """No graph, no run, unknown types: nothing is drawn, nothing breaks."""
    bodies: list[dict[str, Any]] = [
        {},
        {"@graph": []},
        {"@graph": [{"@id": "x", "@type": "y"}, {"@type": []}]},
    ]
    for body in bodies:
        graph = prov_graph([{"body": body, "run": {}}])
        assert graph.nodes == ()
        assert provenance(graph, name="Provenance") == ""


def test_the_picture_shows_every_thing_and_no_markup_of_others() -> None:
    """Each node is drawn once, named in full; a long or hostile name is text."""
    hostile = "<script>" + "x" * 60
    image = ET.fromstring(  # noqa: S314 - made by the function under test
        provenance(
            prov_graph([activity(2, before=1, file=hostile), activity(1)]), name="Provenance"
        )
    )
    nodes = [each for each in image.iter("g") if str(each.get("class")).startswith("node")]
    assert sorted(str(each.get("class")) for each in nodes) == [
        "node activity", "node activity", "node agent",
        "node entity", "node entity", "node entity", "node entity",
    ]  # fmt: skip
    assert list(image.iter("script")) == []
    shown = [text.text for node in nodes for text in node.iter("text")]
    assert any(str(each).startswith("<script>") and str(each).endswith("…") for each in shown)
