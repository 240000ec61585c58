"""The kinds of rules that a validation policy is made of: schemas, models, functions, care labels.

A rule says what is wrong with the inputs of a node, or with its result. Its fingerprint changes
whenever it might say something else.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

import orjson

from tallgrass.errors import GovernanceError, InvalidInput, ValidationError
from tallgrass.governance.gate import Rule as Guard
from tallgrass.governance.policy import CARE_LABELS
from tallgrass.nodes.code_version import derive_code_version
from tallgrass.nodes.protocols import NodeCall
from tallgrass.nodes.values import DEPTH_MAX, Values, hash_of_identity, type_name

_LABEL_KEY: Final = "care_label"
#: By name: the rules need no LangGraph.
_COMMAND: Final = "langgraph.types.Command"
_SEND: Final = "langgraph.types.Send"
_STRICTNESS: Final = {label: rank for rank, label in enumerate(CARE_LABELS)}


class Stage(StrEnum):
    """When a rule is asked."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a rule looks at; `result` only after the node."""

    call: NodeCall
    stage: Stage
    inputs: Any
    result: Any = None

    @property
    def value(self) -> Any:
        """The inputs before the node, the result after it; of LangGraph's command its update."""
        if self.stage is Stage.BEFORE:
            return self.inputs
        is_command = type_name(type(self.result)) == _COMMAND
        return self.result.update if is_command else self.result


class Rule(Protocol):
    """One thing that must hold."""

    @property
    def name(self) -> str:
        """What errors call it."""

    @property
    def fingerprint(self) -> str:
        """What changes when the rule does."""

    def problems(self, checked: Checked) -> list[str]:
        """Return what is wrong; governance's refusals are raised as `GovernanceError`."""


class SchemaRule:
    """A JSON Schema; values are looked at as the JSON that they would be written as."""

    def __init__(self, schema: Mapping[str, Any], *, name: str = "schema") -> None:
        self.name = name
        self.fingerprint = hash_of_identity(["schema", name, dict(schema)])
        self._validator = _schema_validator(schema)

    def problems(self, checked: Checked) -> list[str]:
        """Return each violation with its place; the values themselves are not repeated."""
        try:
            document = as_json(checked.value)
        except (TypeError, ValueError) as exc:
            return [f"it cannot be written as JSON: {exc}"]
        return [
            f"{_place(error.instance_path)} breaks {'/'.join(map(str, error.schema_path))}"
            for error in self._validator.iter_errors(document)
        ]


class ModelRule:
    """A pydantic model that the value must be one of, or can be read as.

    `version` is needed where the model's own code has no stable form.
    """

    def __init__(self, model: Any, *, version: str | None = None) -> None:
        if not hasattr(model, "model_validate"):
            raise _invalid(f"{model!r} is no pydantic model")
        self.name = str(model.__name__)
        #: Its fields, and the code of its validators.
        self.fingerprint = hash_of_identity(
            ["model", type_name(model), model.model_json_schema(), version or _code_of(model)]
        )
        self._model = model

    def problems(self, checked: Checked) -> list[str]:
        """Return each violation with its place."""
        from pydantic import ValidationError as ModelError  # noqa: PLC0415 - for models only

        value = checked.value
        if isinstance(value, self._model):
            # One that was made without checks, or changed since.
            value = value.model_dump()
        try:
            self._model.model_validate(value)
        except ModelError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
            return [f"{_place(each['loc'])}: {each['msg']}" for each in found]
        return []


class CallableRule:
    """A function of the value: what it returns or raises is the problem.

    None and True are fine; False, a text or a list of texts are problems, and so is a ValueError or
    AssertionError. `version` is needed where the function's code has no stable form.
    """

    def __init__(self, check: Callable[[Any], Any], *, version: str | None = None) -> None:
        self.name = getattr(check, "__name__", type(check).__name__)
        self.fingerprint = hash_of_identity(["callable", self.name, version or _version_of(check)])
        self._check = check

    def problems(self, checked: Checked) -> list[str]:
        """Return what the function says."""
        try:
            said = self._check(checked.value)
        except ValidationError:
            raise
        except (ValueError, AssertionError) as error:
            said = str(error) or type(error).__name__
        if said is None or said is True:
            return []
        if said is False:
            return ["it does not hold"]
        return [said] if isinstance(said, str) else [str(each) for each in said]


@dataclass(frozen=True, slots=True, kw_only=True)
class CareRule:
    """A result is no more open than what it was made of; asked after the node.

    Labels are fields named ``care_label``, wherever they stand. A result without one has the label
    under which its node was admitted. `lowered_by` names, for a node that may open data up (by
    masking them, say), what allows it.
    """

    lowered_by: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What errors call it."""
        return "care"

    @property
    def fingerprint(self) -> str:
        """What changes when a node may open data up, or no longer."""
        return hash_of_identity(["care", dict(self.lowered_by)])

    def problems(self, checked: Checked) -> list[str]:
        """Refuse a label that nobody knows, and a result that is more open than its inputs."""
        call = checked.call
        given = [*_labels_in(checked.inputs), call.admission.care_label]
        made = [] if checked.stage is Stage.BEFORE else list(_labels_in(checked.result))
        for label in (*given, *made):
            if label not in _STRICTNESS:
                raise _care_refused(call, Guard.LABEL_UNKNOWN, f"{label!r} is no care label")
        if checked.stage is Stage.AFTER and call.node_id not in self.lowered_by:
            wanted = max(given, key=_STRICTNESS.__getitem__)
            found = min(made or [call.admission.care_label], key=_STRICTNESS.__getitem__)
            if _STRICTNESS[found] < _STRICTNESS[wanted]:
                text = f"its result is {found}, and was made of what is {wanted}"
                raise _care_refused(call, Guard.LABEL_TOO_OPEN, text)
        return []


def as_json(value: Any) -> Any:
    """Return a value as the JSON that it would be written as; what has no such form is refused."""
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
    return orjson.loads(orjson.dumps(value, default=_as_json, option=options))


def _as_json(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"a {type_name(type(value))} is no JSON")


def _schema_validator(schema: Mapping[str, Any]) -> Any:
    try:
        import jsonschema_rs  # noqa: PLC0415 - the extra `stac` brings it
    except ModuleNotFoundError as exc:
        raise _invalid("JSON Schemas need jsonschema-rs: install tallgrass[stac]") from exc
    try:
        return jsonschema_rs.validator_for(dict(schema), validate_formats=True)
    except ValueError as exc:
        raise _invalid(f"a JSON Schema that is none: {exc}") from exc


def _version_of(code: Any) -> str:
    try:
        return derive_code_version(code, Values())
    except InvalidInput as exc:
        name = getattr(code, "__name__", repr(code))
        raise _invalid(f"no version can be derived from {name} ({exc}); give `version`") from exc


def _code_of(model: Any) -> list[str]:
    """Return the versions of all functions by which a model judges, those of its parts too."""
    model.model_rebuild()
    return [_version_of(each) for each in _functions_in(model.__pydantic_core_schema__)]


def _functions_in(schema: Any) -> Iterator[Any]:
    if isinstance(schema, Mapping):
        for each in schema.values():
            yield from _functions_in(each)
    elif isinstance(schema, list | tuple):
        for each in schema:
            yield from _functions_in(each)
    elif callable(schema) and not isinstance(schema, type):
        # A class method is bound to the model, whose own state has no stable form.
        yield getattr(schema, "__func__", schema)


def _place(path: Iterable[Any]) -> str:
    return "/".join(map(str, path)) or "the whole"


def _labels_in(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield every care label of a value, wherever it stands."""
    if depth > DEPTH_MAX:
        return
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    elif type_name(type(value)) == _SEND:
        value = value.arg
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key == _LABEL_KEY:
                yield str(each)
            else:
                yield from _labels_in(each, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _labels_in(each, depth + 1)


def _care_refused(call: NodeCall, guard: Guard, text: str) -> GovernanceError:
    return GovernanceError(f"{call.node_id}: {text}", guard=guard.value)


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(f"validation: {message}", code="node_declaration_invalid")
