"""Events under policies: what may be published, what may leave, and how exact its places are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import GuardRefused, PayloadRefused
from tallgrass.governance.policy import GovernanceDefaults, Policies, Policy
from tallgrass.outbox.payload_rules import PayloadRules
from tallgrass.outbox.publication import Artifact, Event, Prepared, prepare
from tallgrass.outbox.routing import Routing
from tests.support.events import MemorySink, event_id, write
from tests.support.outbox_roles import open_dispatcher

if TYPE_CHECKING:
    from tests.support.backends import Backend

CHECKSUM = f"sha256:{'0' * 64}"
PLACE = {"lon": -95.235123, "lat": 38.971234}


def policies(dataset: str = "soil", **rules: Any) -> Policies:
    """Return the policies of one dataset."""
    values = {"care_label": "public", "sensitivity": "low", **rules}
    return Policies([Policy.of(dataset, GovernanceDefaults(**values))])


def prepared(known: Policies | None = None, **changes: Any) -> Prepared:
    """Prepare an event of the dataset `soil` under policies."""
    values: dict[str, Any] = {
        "pipeline_id": "soil-1",
        "event_name": "soil.ready",
        "dataset_id": "soil",
        "version": "v1.0.0",
        "payload": PLACE,
        "care_label": "public",
        **changes,
    }
    rules = PayloadRules(policies=known or Policies())
    return prepare(Event(**values), rules, Routing())


def refusal(known: Policies, **changes: Any) -> str:
    """Return the rule that refuses an event."""
    with pytest.raises(GuardRefused) as caught:
        prepared(known, **changes)
    return caught.value.guard


def test_an_event_is_labelled_as_its_dataset_is() -> None:
    """Or more strictly; never more openly."""
    sensitive = policies(care_label="sensitive")
    assert refusal(sensitive) == "label_too_open"
    assert prepared(sensitive, care_label="sensitive").facts.care_label == "sensitive"


def test_nothing_is_published_of_a_rejected_dataset() -> None:
    """Whatever its label."""
    assert refusal(policies(reject="under review")) == "dataset_rejected"
    assert prepared(policies("other", reject="under review")).key


@pytest.mark.conformance("OB-6.4")
def test_the_reference_of_restricted_data_may_be_the_policys() -> None:
    """Without a policy the event must bring it; a policy without one does not help.

    Where both have one, the event's own counts.
    """
    with pytest.raises(PayloadRefused) as caught:
        prepared(policies(care_label="restricted"), care_label="restricted")
    assert caught.value.code == "governance_ref_missing"
    with pytest.raises(PayloadRefused):
        prepared(care_label="restricted")
    assert prepared(care_label="restricted", governance_ref="CR-7").facts.governance_ref == "CR-7"
    named = policies(care_label="restricted", governance_ref="CR-8")
    made = prepared(named, care_label="restricted")
    assert made.facts.governance_ref == "CR-8"
    assert json.loads(made.body)["governance_ref"] == "CR-8"
    own = prepared(named, care_label="restricted", governance_ref="CR-9")
    assert own.facts.governance_ref == "CR-9"


@pytest.mark.conformance("OB-6.3")
def test_sovereignty_that_a_policy_declares_travels_along() -> None:
    """In place of none; what the event itself declares counts more."""
    declared = policies(sovereignty={"tribal_authority": "Kaw Nation"})
    assert json.loads(prepared(declared).body)["sovereignty"] == {"tribal_authority": "Kaw Nation"}
    own = {"tribal_authority": "Osage Nation"}
    assert json.loads(prepared(declared, sovereignty=own).body)["sovereignty"] == own
    assert "sovereignty" not in json.loads(prepared(policies()).body)


@pytest.mark.conformance("OB-6.1")
@pytest.mark.parametrize(
    ("rules", "place"),
    [
        ({}, PLACE),
        ({"masking_degrees": 1.0}, {"lon": -95.0, "lat": 39.0}),
        ({"masking_degrees": 0.01}, {"lon": -95.24, "lat": 38.97}),
        ({"masking_degrees": 0.0}, PLACE),
    ],
)
def test_the_policy_says_how_exact_places_are(
    rules: dict[str, Any], place: dict[str, float]
) -> None:
    """Of an open dataset too, and in place of what the label would say."""
    for label in ("public", "sensitive"):
        if label == "sensitive" and not rules:
            continue
        payload = json.loads(prepared(policies(**rules), care_label=label).body)
        assert {name: payload[name] for name in place} == place
        degrees = rules.get("masking_degrees")
        noted = {"method": "degree-grid", "degrees": degrees} if degrees else None
        assert payload.get("masking") == noted


@pytest.mark.conformance("OB-6.1")
@pytest.mark.parametrize(
    "named",
    [
        {"subject": "well 38.97172,-95.23531"},
        {"idempotency_key": "well:N38.97172W095.23531"},
        {"artifact": Artifact(uri="s3://wells/lat38.97172_lon-95.23531.nc", checksum=CHECKSUM)},
    ],
)
def test_what_travels_beside_a_payload_tells_no_place_more_exactly(named: dict[str, Any]) -> None:
    """They are names, so they are not rounded but refused, and never repeated; coarse ones pass."""
    field = next(iter(named)).replace("artifact", "artifact.uri")
    for known, label in ((policies(masking_degrees=0.1), "public"), (None, "sensitive")):
        with pytest.raises(PayloadRefused) as refused:
            prepared(known, care_label=label, payload={"depth": 3}, **named)
        assert refused.value.code == "payload_sensitive"
        assert str(refused.value).startswith(f"{field}: ")
        assert "38.97" not in str(refused.value)
    assert prepared(policies(), **named).facts.care_label == "public"
    coarse = prepared(policies(masking_degrees=0.1), subject="well 39.0,-95.2")
    assert coarse.subject == "well 39.0,-95.2"


@pytest.mark.conformance("OB-6.1")
@given(
    st.floats(-180, 180).map(lambda value: round(value, 6)),
    st.floats(-90, 90).map(lambda value: round(value, 6)),
    st.sampled_from([1.0, 0.1, 0.01, 0.001]),
)
def test_no_payload_tells_more_than_its_policy_allows(
    lon: float, lat: float, degrees: float
) -> None:
    """Every number of the payload lies on the grid of the policy."""
    body = prepared(policies(masking_degrees=degrees), payload={"lon": lon, "lat": lat}).body
    payload = json.loads(body)
    for value in (payload["lon"], payload["lat"]):
        cells = value / degrees
        assert abs(cells - round(cells)) < 1e-6


def test_what_a_policy_forbids_by_now_does_not_leave(backend: Backend) -> None:
    """It fails for good with the rule's name, the others are sent; after a change it can go."""
    write(backend, 1, 3, dataset="open")
    write(backend, 2, dataset="soil")
    sink = MemorySink(batch_max=100)
    stores = backend.open()
    strict = open_dispatcher(stores, sink, policies=policies(care_label="sensitive"))
    strict.run()
    assert sorted(sink.sent) == [event_id(1), event_id(3)]
    [(code, error)] = backend.sql(
        "SELECT error_code, error FROM outbox_attempts WHERE outbox_id = ?", event_id(2)
    )
    assert code == "guard_refused"
    assert error.startswith("label_too_open: soil is sensitive by its policy")
    strict.run()
    assert event_id(2) not in sink.sent
    stores.outbox.requeue([event_id(2)], actor="ann", reason="CR-7")
    open_dispatcher(stores, sink, policies=policies(care_label="public")).run()
    assert sink.sent[-1] == event_id(2)


def test_a_whole_batch_may_be_held_back(backend: Backend) -> None:
    """The sink hears nothing at all."""
    write(backend, 1, 2, dataset="soil")
    sink = MemorySink(batch_max=100)
    held = policies(care_label="restricted", governance_ref="CR-7")
    open_dispatcher(backend.open(), sink, policies=held).run()
    assert sink.sent == []
