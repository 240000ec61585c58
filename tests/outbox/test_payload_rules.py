from __future__ import annotations

import json
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import PayloadRefused
from tallgrass.governance.masking import MaskingPolicy, ProtectedArea, Tier
from tallgrass.outbox import Artifact, Routing
from tallgrass.outbox.payload_rules import PayloadRules, payload_bytes
from tallgrass.outbox.publication import prepare
from tests.outbox.callers import event

CORPUS = tomllib.loads((Path(__file__).parent / "sensitive.toml").read_text(encoding="utf-8"))


def made(payload: dict[str, Any], **changes: Any) -> bytes:
    """Return the bytes of a payload of public data, with changes."""
    values: dict[str, Any] = {
        "care_label": "public",
        "governance_ref": None,
        "sovereignty": None,
        "rules": PayloadRules(),
    }
    return payload_bytes(payload, **{**values, **changes})


def refusal(payload: dict[str, Any], **changes: Any) -> PayloadRefused:
    """Return the error of a payload that is refused."""
    with pytest.raises(PayloadRefused) as refused:
        made(payload, **changes)
    return refused.value


class TestPlainJson:
    """What is sent is JSON that all readers read alike."""

    @pytest.mark.conformance("OB-2.4")
    def test_the_bytes_are_canonical(self) -> None:
        """Sorted keys, no blanks, UTF-8; the same whatever the order they were given in."""
        payload = {"b": [1, 2.5, None, True], "a": {"ü": "x\n"}}
        expected = '{"a":{"ü":"x\\n"},"b":[1,2.5,null,true],"care_label":"public"}'.encode()
        assert made(payload) == expected
        assert made(dict(reversed(payload.items()))) == expected

    @pytest.mark.parametrize(
        ("payload", "place"),
        [
            ({"a": float("nan")}, "$.a is nan"),
            ({"a": [1, {"b": float("inf")}]}, "$.a[1].b is inf"),
            ({"a": {1: "x"}}, "a key of $.a is a int"),
            ({"a": {None: "x"}}, "a key of $.a is a NoneType"),
            ({"a": uuid.UUID(int=1)}, "$.a is a UUID"),
            ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, "$.a is a datetime"),
            ({"a": b"x"}, "$.a is a bytes"),
            ({"a": {"x"}}, "$.a is a set"),
            ({"a": "\ud800"}, "$.a holds half a character"),
            ({"a": 2**64}, "$.a has more than 64 bits"),
            ({"a": -(2**63) - 1}, "$.a has more than 64 bits"),
        ],
    )
    def test_what_is_no_json_is_refused_with_its_place(
        self, payload: dict[str, Any], place: str
    ) -> None:
        """The message says where; nothing is turned into null or text behind one's back."""
        error = refusal(payload)
        assert error.code == "payload_invalid"
        assert place in str(error)

    def test_depth_is_bounded(self) -> None:
        """64 levels pass, one more does not; a circle is refused, too."""

        def nested(levels: int) -> dict[str, Any]:
            value: Any = 1
            for _ in range(levels):
                value = [value]
            return {"a": value}

        assert made(nested(62))
        assert "levels deep" in str(refusal(nested(64)))
        assert "levels deep" in str(refusal(nested(5000)))
        circle: dict[str, Any] = {}
        circle["a"] = circle
        assert refusal(circle).code == "payload_invalid"

    def test_size_is_bounded(self) -> None:
        """The limit counts the bytes that are sent."""
        rules = PayloadRules(bytes_max=100)
        fits = {"a": "x" * (100 - len('{"a":"","care_label":"public"}'))}
        assert len(made(fits, rules=rules)) == 100
        error = refusal({"a": fits["a"] + "x"}, rules=rules)
        assert error.code == "payload_too_large"
        assert "101 bytes; at most 100" in str(error)
        assert refusal({"a": "ü" * 200_000}).code == "payload_too_large"


class TestGovernance:
    """Labels, references and sovereignty travel with the event."""

    @pytest.mark.conformance("OB-6.2", "C-36")
    @pytest.mark.parametrize("label", ["public", "sensitive", "restricted"])
    def test_the_label_is_embedded(self, label: str) -> None:
        """Every payload says its label; one that says another is refused."""
        document = json.loads(made({"a": 1}, care_label=label, governance_ref="CR-7"))
        assert document == {"a": 1, "care_label": label, "governance_ref": "CR-7"}
        assert json.loads(made({"care_label": "public"})) == {"care_label": "public"}
        assert "care_label" in str(refusal({"care_label": "none"}))

    @pytest.mark.conformance("OB-6.3")
    def test_sovereignty_travels_where_it_is_declared(self) -> None:
        """It is there as it was declared, and absent otherwise."""
        declared = {"tribal_authority": "Kaw Nation", "review_status": "approved"}
        assert json.loads(made({}, sovereignty=declared))["sovereignty"] == declared
        assert "sovereignty" not in json.loads(made({}))
        assert "sovereignty" not in json.loads(made({}, sovereignty={}))

    @pytest.mark.conformance("OB-6.4")
    def test_restricted_data_need_a_reference(self) -> None:
        """Without one they are refused; with one it travels."""
        assert refusal({}, care_label="restricted").code == "governance_ref_missing"
        assert json.loads(made({}, care_label="restricted", governance_ref="CR-7")) == {
            "care_label": "restricted",
            "governance_ref": "CR-7",
        }


class TestSensitiveContent:
    """Data of persons and what opens doors are refused, whatever field they stand in."""

    @pytest.mark.conformance("OB-8.5")
    @pytest.mark.parametrize(
        ("kind", "text"),
        [(kind, text) for kind, texts in CORPUS["found"].items() for text in texts],
    )
    def test_the_corpus_is_found(self, kind: str, text: str) -> None:
        """By its form, alone, within a sentence, deep in a document; the value is not repeated."""
        for payload in ({"note": text}, {"a": [{"note": f"see {text} for more"}]}):
            error = refusal(payload)
            assert error.code == "payload_sensitive"
            assert kind in str(error)
            assert "note" in str(error)
            assert text not in str(error)

    @pytest.mark.conformance("OB-8.5")
    @pytest.mark.parametrize("name", CORPUS["names"])
    def test_names_of_secrets_are_found(self, name: str) -> None:
        """A field that is called so and has a value is refused, by the name of the field."""
        error = refusal({"settings": {name: "hunter2"}})
        assert error.code == "payload_sensitive"
        assert f"$.settings.{name}: secret" in str(error)
        assert made({"settings": {name: "[redacted]"}})
        assert made({"settings": {name: None}})

    @pytest.mark.conformance("OB-8.5")
    @pytest.mark.parametrize("name", CORPUS["names"])
    @pytest.mark.parametrize(
        "value", [123456789, 0.5, ["hunter2"], {"value": "hunter2"}, [{"value": [7]}]], ids=str
    )
    def test_a_secret_is_found_in_whatever_form(self, name: str, value: Any) -> None:
        """A number, a list or an object under the name of a secret is one too."""
        error = refusal({"settings": {name: value}})
        assert error.code == "payload_sensitive"
        assert f"$.settings.{name}: secret" in str(error)

    @pytest.mark.parametrize("name", CORPUS["names"])
    @pytest.mark.parametrize("value", ["", [], {}, True, ["[redacted]", None], {"a": "***"}])
    def test_a_name_without_a_value_is_harmless(self, name: str, value: Any) -> None:
        """What is empty or hidden, or says yes or no, opens nothing."""
        assert made({"settings": {name: value}})

    @pytest.mark.conformance("OB-8.5")
    @pytest.mark.parametrize(
        ("kind", "text"),
        [(kind, text) for kind, texts in CORPUS["found"].items() for text in texts],
    )
    def test_the_corpus_is_found_in_names_of_fields(self, kind: str, text: str) -> None:
        """A name is published as well; it is not repeated, neither for what lies below it."""
        for payload in ({"seen": {text: 1}}, {"seen": {text: [{"note": "jane@example.com"}]}}):
            error = refusal(payload)
            assert error.code == "payload_sensitive"
            assert kind in str(error)
            assert "a name in $.seen" in str(error)
            assert text not in str(error)

    @pytest.mark.conformance("OB-8.5")
    @pytest.mark.parametrize(
        ("kind", "number"),
        [(kind, number) for kind, numbers in CORPUS["numbers"].items() for number in numbers],
    )
    def test_numbers_of_persons_are_found(self, kind: str, number: float) -> None:
        """Written as a number, it is the same."""
        assert f"$.a[0].note: {kind}" in str(refusal({"a": [{"note": number}]}))
        assert f"$.a[1]: {kind}" in str(refusal({"a": [1, number]}))

    @pytest.mark.parametrize("number", CORPUS["harmless_numbers"])
    def test_usual_numbers_are_not_mistaken(self, number: float) -> None:
        """Instants and sizes pass."""
        assert made({"value": number})

    @pytest.mark.parametrize("name", CORPUS["measures"])
    def test_a_number_that_counts_is_no_secret(self, name: str) -> None:
        """How many there are, how long they live."""
        assert made({name: 12})

    @pytest.mark.conformance("OB-8.5")
    @pytest.mark.parametrize("where", ["subject", "idempotency_key", "artifact.uri"])
    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            ("e-mail address", "jane.doe@example.org"),
            ("credential", "https://u:pw@host.example/output.parquet"),
        ],
    )
    def test_what_travels_beside_the_payload_is_looked_through(
        self, where: str, kind: str, text: str
    ) -> None:
        """Consumers get it as well."""
        artifact = Artifact(uri=text, checksum="sha256:" + "93" * 32)
        values: dict[str, Any] = {"artifact": artifact} if "." in where else {where: text}
        with pytest.raises(PayloadRefused) as caught:
            prepare(event(**values), PayloadRules(), Routing())
        assert caught.value.code == "payload_sensitive"
        assert str(caught.value).startswith(f"{where}: ")
        assert kind in str(caught.value)
        assert text not in str(caught.value)

    @pytest.mark.parametrize("text", CORPUS["harmless"])
    def test_what_pipelines_publish_is_not_mistaken(self, text: str) -> None:
        """Keys, times, hashes, versions and places of real payloads pass."""
        assert made({"value": text}, rules=PayloadRules(masking=MaskingPolicy(labels=())))

    @pytest.mark.parametrize("name", CORPUS["harmless_names"])
    def test_usual_names_are_not_mistaken(self, name: str) -> None:
        """Names that only look like those of secrets pass."""
        assert made({name: "descending"})

    @pytest.mark.conformance("OB-8.5")
    @given(
        user=st.from_regex(r"[a-z][a-z0-9._]{0,12}[a-z0-9]", fullmatch=True),
        host=st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z]\.(com|org|gov|co\.uk)", fullmatch=True),
        before=st.text(max_size=20),
        depth=st.integers(0, 4),
    )
    def test_any_e_mail_address_is_found(
        self, user: str, host: str, before: str, depth: int
    ) -> None:
        """Whoever's it is, whatever stands before it, however deep."""
        value: Any = f"{before} {user}@{host}".encode("utf-8", "replace").decode()
        for _ in range(depth):
            value = [value]
        assert "e-mail address" in str(refusal({"value": value}))


class TestMaskedPayloads:
    """Places are as exact as the label and the areas allow, and the payload says so."""

    PLACE: dict[str, Any] = {  # noqa: RUF012 - never changed
        "site": "N38.97172W095.23531",
        "geometry": {"type": "Point", "coordinates": [-95.23531, 38.97172]},
        "bbox": [-95.24, 38.97, -95.23, 38.98],
        "lat": 38.97172,
        "href": "https://kfm.example/sites?lat=38.97172&lon=-95.23531",
    }

    @pytest.mark.conformance("OB-6.1")
    def test_sensitive_places_are_coarse(self) -> None:
        """A tenth of a degree for sensitive data, by hand; public data stay exact."""
        assert json.loads(made(self.PLACE)) == {**self.PLACE, "care_label": "public"}
        assert json.loads(made(self.PLACE, care_label="sensitive")) == {
            "site": "N39.0W095.2",
            "geometry": {"type": "Point", "coordinates": [-95.2, 39.0]},
            "bbox": [-95.2, 39.0, -95.2, 39.0],
            "lat": 39.0,
            "href": "https://kfm.example/sites?lat=39.0&lon=-95.2",
            "care_label": "sensitive",
            "masking": {"method": "degree-grid", "degrees": 0.1},
        }

    @pytest.mark.conformance("OB-6.1")
    def test_protected_areas_hold_for_public_data_too(self) -> None:
        """A place in an area is as exact as the area allows, whatever its label."""
        area = ProtectedArea(
            name="burial ground", west=-95.3, south=38.9, east=-95.2, north=39.0, tier=Tier.EXTREME
        )
        rules = PayloadRules(masking=MaskingPolicy(areas=(area,)))
        document = json.loads(made(self.PLACE, rules=rules))
        assert document["geometry"]["coordinates"] == [-95.0, 39.0]
        assert document["masking"] == {"method": "degree-grid", "degrees": 1.0}
        outside = {"geometry": {"type": "Point", "coordinates": [-97.12345, 38.12345]}}
        assert json.loads(made(outside, rules=rules))["geometry"] == outside["geometry"]

    def test_a_payload_without_places_is_left_alone(self) -> None:
        """Sensitive data that tell no place are sent as they are."""
        assert json.loads(made({"rows": 1.2345}, care_label="sensitive")) == {
            "rows": 1.2345,
            "care_label": "sensitive",
        }

    def test_the_note_is_ours(self) -> None:
        """A payload that claims to be masked and is not is refused."""
        error = refusal({**self.PLACE, "masking": "done"}, care_label="sensitive")
        assert "masking" in str(error)
