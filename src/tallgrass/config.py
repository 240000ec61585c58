"""Configuration: flags, then ``TALLGRASS_*`` variables, then a TOML file, then defaults.

Every setting is declared once, in `SETTINGS`: its key, type, default and meaning. An unknown key is
refused with the nearest known name, wherever it stands. `Config` remembers where each value came
from, and `config_version` hashes those settings that can change an output.
"""

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path

from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.errors import ConfigError
from tallgrass.ledger.replay_reasons import CustomReason
from tallgrass.ledger.rules import MAX_ATTEMPTS_RANGE, DatasetException, LedgerRules
from tallgrass.ledger.unit import PROVIDERS
from tallgrass.retry import Backoff

DEFAULT_FILE = "tallgrass.toml"
PREFIX = "TALLGRASS_"
#: Variables with the prefix that are no settings.
NOT_SETTINGS = frozenset({"TALLGRASS_CONFIG"})
_TEST_PREFIX = "TALLGRASS_TEST_"

Value = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting with a single value."""

    key: str
    default: Value
    doc: str
    #: Whether it can change what the pipeline writes, and so counts in config_version.
    shapes_output: bool = False
    check: Callable[[Value], str | None] = lambda _value: None

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + self.key.upper().replace(".", "_")


def _between(low: float, high: float) -> Callable[[Value], str | None]:
    def check(value: Value) -> str | None:
        return None if low <= float(value) <= high else f"must be between {low:g} and {high:g}"

    return check


def _label(value: Value) -> str | None:
    text = str(value)
    allowed = text and all(c.isalnum() or c in "._-" for c in text)
    return None if allowed else "must be a word of letters, digits, '.', '_' and '-'"


def _database_url(value: Value) -> str | None:
    known = str(value).startswith(("sqlite:///", "postgresql://", "postgres://"))
    return None if known else "must begin with sqlite:/// or postgresql://"


SETTINGS: tuple[Setting, ...] = (
    Setting(key="env", default="dev", doc="label of metrics, such as dev or prod", check=_label),
    Setting(
        key="database.url",
        default="sqlite:///tallgrass.db",
        doc="sqlite:///FILE (one machine) or postgresql://…",
        check=_database_url,
    ),
    Setting(
        key="database.lock_timeout_s",
        default=30.0,
        doc="how long a write waits for other writers (SQLite)",
        check=_between(0.1, 3600),
    ),
    Setting(
        key="worker.id",
        default="worker",
        doc="logical name of a worker, never a host name",
        check=_label,
    ),
    Setting(
        key="worker.batch",
        default=500,
        doc="units claimed and committed together",
        check=_between(1, 10_000),
    ),
    Setting(
        key="worker.lease_s",
        default=60.0,
        doc="a worker that does not renew for this long loses its units",
        check=_between(1, 3600),
    ),
    Setting(
        key="audit.anchor_file",
        default="tallgrass-audit-anchors.jsonl",
        doc="where the audit chain's heads are written down, outside the database",
    ),
    Setting(
        key="ledger.max_attempts",
        default=8,
        doc="attempts of a unit before it is held; keep it above the queue's maxReceiveCount",
        shapes_output=True,
        check=_between(MAX_ATTEMPTS_RANGE.start, MAX_ATTEMPTS_RANGE.stop - 1),
    ),
    Setting(
        key="ledger.retry_base_s",
        default=5.0,
        doc="ceiling of the first back-off; it doubles with each failure",
        check=_between(0.001, 3600),
    ),
    Setting(
        key="ledger.retry_cap_s",
        default=900.0,
        doc="ceiling of every back-off",
        check=_between(0.001, 86_400),
    ),
    Setting(
        key="ledger.allow_partial",
        default=True,
        doc="whether partial provenance still makes a success",
        shapes_output=True,
    ),
    Setting(
        key="ledger.allow_suspect",
        default=True,
        doc="whether a suspect integrity or metadata result still makes a success",
        shapes_output=True,
    ),
    Setting(
        key="ledger.reingest",
        default=True,
        doc="whether an overwritten source object is ingested again",
        shapes_output=True,
    ),
)
_BY_KEY = {setting.key: setting for setting in SETTINGS}

#: Tables that only a file can hold, each with its meaning.
TABLES: dict[str, str] = {
    "ledger.providers": "further providers beside aws, azure and gcp",
    "ledger.replay_reasons": "custom reasons: [ledger.replay_reasons.CODE] description, approval_ref",
    "ledger.exceptions": "[ledger.exceptions.DATASET] approval_ref and what it may do differently",
    "ledger.extensions": "declared extension fields: DATASET = ['ext_name', …]",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings, each with its origin."""

    values: Mapping[str, Value]
    #: key → `flag`, `$VARIABLE`, the file's name, or `default`.
    origins: Mapping[str, str]
    tables: Mapping[str, object]
    file: Path | None
    rules: LedgerRules

    @property
    def config_version(self) -> str:
        """Hash of the settings that can change an output; addresses and sizes do not count."""
        shaping = {s.key: self.values[s.key] for s in SETTINGS if s.shapes_output}
        return sha256_hex(canonical_bytes({"settings": shaping, "tables": self.tables}))[:16]

    def text(self, key: str) -> str:
        """Return a setting that is text."""
        return str(self.values[key])

    def number(self, key: str) -> float:
        """Return a setting that is a number."""
        return float(self.values[key])

    def integer(self, key: str) -> int:
        """Return a setting that is a whole number."""
        return int(self.values[key])


def load_config(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Value] | None = None,
) -> Config:
    """Read the configuration; anything that cannot be used is refused with its place and a fix.

    Without `file`, the one that ``TALLGRASS_CONFIG`` names is read, else ``tallgrass.toml`` here if
    there is one.
    """
    environment = os.environ if environment is None else environment
    file = _find_file(file, environment)
    values: dict[str, Value] = {setting.key: setting.default for setting in SETTINGS}
    origins = dict.fromkeys(values, "default")
    tables: dict[str, object] = {}
    if file is not None:
        for key, value in _flatten(_read_toml(file)):
            if key in TABLES:
                tables[key] = value
            else:
                values[key] = _typed(_known(key, str(file)), value, str(file))
                origins[key] = str(file)
    for setting, text in _from_environment(environment):
        values[setting.key] = _typed(setting, _parsed(setting, text), f"${setting.variable}")
        origins[setting.key] = f"${setting.variable}"
    for key, value in (flags or {}).items():
        values[key] = _typed(_known(key, "flag"), value, "flag")
        origins[key] = "flag"
    rules = _rules(values, tables, str(file))
    return Config(values=values, origins=origins, tables=tables, file=file, rules=rules)


def _find_file(file: Path | None, environment: Mapping[str, str]) -> Path | None:
    named = file or (
        Path(environment["TALLGRASS_CONFIG"]) if environment.get("TALLGRASS_CONFIG") else None
    )
    if named is None:
        default = Path(DEFAULT_FILE)
        return default if default.is_file() else None
    if not named.is_file():
        message = f"there is no configuration file {named}"
        raise ConfigError(message)
    return named


def _read_toml(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        message = f"{file} is not TOML: {exc}"
        raise ConfigError(message) from exc
    except OSError as exc:
        message = f"cannot read {file}: {exc.strerror}"
        raise ConfigError(message) from exc


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in TABLES and key not in _BY_KEY:
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[Setting, str]]:
    by_variable = {setting.variable: setting for setting in SETTINGS}
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name.startswith(_TEST_PREFIX) or name in NOT_SETTINGS:
            continue
        if name not in by_variable:
            message = f"unknown variable {name}{_did_you_mean(name, by_variable)}"
            raise ConfigError(message)
        yield by_variable[name], environment[name]


def _known(key: str, place: str) -> Setting:
    if key not in _BY_KEY:
        message = f"{place}: unknown key {key!r}{_did_you_mean(key, [*_BY_KEY, *TABLES])}"
        raise ConfigError(message)
    return _BY_KEY[key]


def _did_you_mean(name: str, known: Mapping[str, object] | list[str]) -> str:
    close = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _parsed(setting: Setting, text: str) -> Value:
    """Read a variable's text as the type of its setting."""
    if isinstance(setting.default, bool):
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() not in words:
            message = f"${setting.variable}: {text!r} is neither true nor false"
            raise ConfigError(message)
        return words[text.lower()]
    if isinstance(setting.default, int | float):
        try:
            return type(setting.default)(text)
        except ValueError:
            message = f"${setting.variable}: {text!r} is not a number"
            raise ConfigError(message) from None
    return text


def _typed(setting: Setting, value: object, place: str) -> Value:
    wanted = type(setting.default)
    if wanted is float and type(value) is int:
        value = float(value)
    if type(value) is not wanted:
        name = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        message = f"{place}: {setting.key} must be {name[wanted]}, not {value!r}"
        raise ConfigError(message)
    if problem := setting.check(value):  # type: ignore[arg-type]
        message = f"{place}: {setting.key} {problem}, not {value!r}"
        raise ConfigError(message)
    return value  # type: ignore[return-value]


def _rules(values: Mapping[str, Value], tables: Mapping[str, object], place: str) -> LedgerRules:
    reasons = _entries(tables, "ledger.replay_reasons", CustomReason, "code", place)
    exceptions = _entries(tables, "ledger.exceptions", DatasetException, "dataset", place)
    return LedgerRules(
        max_attempts=int(values["ledger.max_attempts"]),
        backoff=Backoff(
            base_s=float(values["ledger.retry_base_s"]), cap_s=float(values["ledger.retry_cap_s"])
        ),
        allow_partial=bool(values["ledger.allow_partial"]),
        allow_suspect=bool(values["ledger.allow_suspect"]),
        reingest=bool(values["ledger.reingest"]),
        providers=PROVIDERS | frozenset(_names(tables.get("ledger.providers", []), place)),
        custom_reasons=reasons,
        exceptions=exceptions,
        extensions={
            dataset: frozenset(_names(names, place))
            for dataset, names in _table(tables, "ledger.extensions", place).items()
        },
    )


def _entries(  # type: ignore[no-untyped-def]
    tables: Mapping[str, object], key: str, entry: type, name_field: str, place: str
):
    """Read ``[key.NAME]`` tables as entries; unknown and missing fields are refused."""
    known = {item.name: item for item in fields(entry)}
    entries = {}
    for name, body in _table(tables, key, place).items():
        where = f"{place}: {key}.{name}"
        if not isinstance(body, dict):
            message = f"{where} must be a table"
            raise ConfigError(message)
        for field_name, value in body.items():
            if field_name not in known or field_name == name_field:
                message = f"{where}: unknown key {field_name!r}{_did_you_mean(field_name, known)}"
                raise ConfigError(message)
            _require_field_type(where, field_name, value, known[field_name].type)
        missing = [f for f in ("description", "approval_ref") if f in known and f not in body]
        if missing:
            message = f"{where}: {missing[0]} is missing"
            raise ConfigError(message, code="exception_without_approval")
        entries[name] = entry(**{name_field: name, **body})
    return entries


def _require_field_type(where: str, name: str, value: object, annotation: object) -> None:
    wanted = {"str": str, "bool": bool, "int": int}
    text = getattr(annotation, "__name__", str(annotation))
    expected = next(kind for word, kind in wanted.items() if word in text)
    if type(value) is not expected:
        message = f"{where}.{name} must be of type {expected.__name__}, not {value!r}"
        raise ConfigError(message)


def _table(tables: Mapping[str, object], key: str, place: str) -> dict[str, object]:
    table = tables.get(key, {})
    if not isinstance(table, dict):
        message = f"{place}: {key} must be a table"
        raise ConfigError(message)
    return table


def _names(value: object, place: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        message = f"{place}: {value!r} must be a list of names"
        raise ConfigError(message)
    return value
