"""Documents against STAC core and every extension that they declare.

Schemas are compiled once for each kind of document and each set of extensions. A schema that is not
at hand is never passed over: a document that declares it, or whose content leads to it, counts as
unchecked and the address is told.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

Schema = dict[str, Any]
#: Returns the schema at an address, or None where it is not to be had.
SchemaSource = Callable[[str], Schema | None]

_STAC = "https://schemas.stacspec.org/v1.1.0"
#: Type of a document → its core schema.
CORE = {
    "Feature": f"{_STAC}/item-spec/json-schema/item.json",
    "Collection": f"{_STAC}/collection-spec/json-schema/collection.json",
    "Catalog": f"{_STAC}/catalog-spec/json-schema/catalog.json",
}
#: The version of STAC that these are of; another one is not judged by them.
CORE_VERSION = "1.1.0"

_ANYTHING: Schema = {}
_NOTHING: Schema = {"not": {}}
_PROBLEMS_MAX = 20
_MESSAGE_CHARS_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that a schema has against a document."""

    #: JSON pointer into the document.
    path: str
    message: str
    #: Where in the schemas the rule stands.
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one document: valid, invalid, or not to be judged for want of a schema."""

    problems: tuple[Problem, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether every schema was there and none had anything against it."""
        return not self.problems and not self.missing


VALID = Verdict()


@dataclass(slots=True)
class _Compiled:
    """The schemas of one kind of document, compiled."""

    #: What is missing is taken to match nothing.
    strict: Any
    #: What is missing is taken to match anything; None where nothing is missing.
    lenient: Any
    missing: tuple[str, ...]


@dataclass(slots=True)
class StacValidator:
    """Judges documents; `source` is asked once for each address."""

    source: SchemaSource
    _compiled: dict[tuple[str, ...], _Compiled | tuple[str, ...]] = field(default_factory=dict)
    _schemas: dict[str, Schema | None] = field(default_factory=dict)

    def judge(self, document: Any) -> Verdict:
        """Return what the schemas say of a document."""
        wrong = _kind_problem(document)
        if wrong is not None:
            return Verdict(problems=(wrong,))
        extensions = document.get("stac_extensions") or ()
        addresses = (CORE[document["type"]], *extensions)
        found = self._compiled.get(addresses)
        if found is None:
            found = self._compiled[addresses] = self._compile(addresses)
        if isinstance(found, tuple):
            return Verdict(missing=found)
        if found.strict.is_valid(document):
            return VALID
        return _judge(found, document)

    def _compile(self, addresses: tuple[str, ...]) -> _Compiled | tuple[str, ...]:
        absent = tuple(address for address in addresses if self._schema(address) is None)
        if absent:
            return absent
        missing: set[str] = set()
        strict = self._validator(addresses, missing, _NOTHING)
        return _Compiled(
            strict=strict,
            lenient=self._validator(addresses, set(), _ANYTHING) if missing else None,
            missing=tuple(sorted(missing)),
        )

    def _validator(
        self, addresses: tuple[str, ...], missing: set[str], instead: Schema
    ) -> "jsonschema_rs.Draft7Validator":
        def retrieve(uri: str) -> Schema:
            found = self._schema(uri)
            if found is None:
                missing.add(uri)
            return instead if found is None else found

        whole = {"allOf": [{"$ref": address} for address in addresses]}
        return jsonschema_rs.Draft7Validator(whole, retriever=retrieve, validate_formats=True)

    def _schema(self, address: str) -> Schema | None:
        address = address.rstrip("#")
        if address not in self._schemas:
            self._schemas[address] = self.source(address)
        return self._schemas[address]


def _kind_problem(document: Any) -> Problem | None:
    """Return why a document is none that can be judged."""
    if not isinstance(document, dict) or document.get("type") not in CORE:
        known = ", ".join(CORE)
        return Problem(path="/type", message=f"not a STAC document: {known}", rule="type")
    if document.get("stac_version") != CORE_VERSION:
        text = f"STAC {CORE_VERSION} is judged, not {str(document.get('stac_version'))[:20]!r}"
        return Problem(path="/stac_version", message=text, rule="stac_version")
    extensions = document.get("stac_extensions")
    named = extensions is None or (
        isinstance(extensions, list) and set(map(type, extensions)) <= {str}
    )
    if not named:
        text = "not a list of addresses"
        return Problem(path="/stac_extensions", message=text, rule="stac_extensions")
    return None


def _judge(found: _Compiled, document: Any) -> Verdict:
    """Tell what is wrong from what is only not to be judged."""
    judge = found.strict if found.lenient is None else found.lenient
    problems = tuple(_problems(judge.iter_errors(document)))
    if problems:
        return Verdict(problems=problems)
    return Verdict(missing=found.missing)


def _problems(errors: Iterable[Any]) -> Iterator[Problem]:
    for number, error in enumerate(errors):
        if number == _PROBLEMS_MAX:
            return
        yield Problem(
            path="".join(f"/{part}" for part in error.instance_path),
            message=_short(error.message),
            rule="".join(f"/{part}" for part in error.schema_path),
        )


def _short(text: str) -> str:
    if len(text) <= _MESSAGE_CHARS_MAX:
        return text
    # The end says what is wrong, the beginning only repeats the value.
    half = _MESSAGE_CHARS_MAX // 2
    return f"{text[:half]} … {text[-half:]}"


def documents_in(value: Any) -> Iterator[Any]:
    """Yield the documents of a JSON value: itself, or the features of a feature collection."""
    if isinstance(value, dict) and value.get("type") == "FeatureCollection":
        features = value.get("features")
        yield from features if isinstance(features, list) else [value]
    else:
        yield value
