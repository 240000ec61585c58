"""Configuration: flags, then ``TALLGRASS_*`` variables, then a TOML file, then defaults.

The settings are declared in ``settings.py``. An unknown key is refused with the nearest known name,
wherever it stands. `Config` remembers where each value came from, and `settings_version` hashes
those settings that can change an output.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.datasets.fields import Table
from tallgrass.datasets.governance_loader import load_overlay
from tallgrass.errors import ConfigError, did_you_mean
from tallgrass.governance.policy import Overlay
from tallgrass.ledger.replay_reasons import CustomReason
from tallgrass.ledger.rules import DatasetException, LedgerRules
from tallgrass.ledger.unit import PROVIDERS
from tallgrass.outbox.routing import Routing, parse_routing
from tallgrass.retry import Backoff
from tallgrass.setting_form import PREFIX, Setting, Value
from tallgrass.settings import SETTINGS, TABLES

DEFAULT_FILE = "tallgrass.toml"
#: Variables with the prefix that are no settings.
NOT_SETTINGS = frozenset({"TALLGRASS_CONFIG", "TALLGRASS_TOKEN"})
_TEST_PREFIX = "TALLGRASS_TEST_"
#: The largest whole number of TOML; a larger one is too large for floats, rows and messages.
_INTEGER_MAX = 2**63 - 1

_BY_KEY = {setting.key: setting for setting in SETTINGS}
#: What the settings and tables of a file stand below: `database`, `worker` …
_SECTIONS = frozenset(key.rpartition(".")[0] for key in (*_BY_KEY, *TABLES)) - {""}

#: The keys of one custom reason and of one exception, with their types.
_REASON_KEYS: dict[str, type] = {"description": str, "approval_ref": str}
_EXCEPTION_KEYS: dict[str, type] = {
    "approval_ref": str,
    "max_attempts": int,
    "allow_partial": bool,
    "allow_suspect": bool,
    "reingest": bool,
}
_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings, each with its origin."""

    values: Mapping[str, Value]
    #: key → `flag`, `$VARIABLE`, the file's name, or `default`.
    origins: Mapping[str, str]
    tables: Mapping[str, object]
    file: Path | None
    rules: LedgerRules
    routing: Routing
    #: Dataset → the rules of its policy that replace those of its file.
    policies: Mapping[str, Overlay] = field(default_factory=dict)

    @property
    def settings_version(self) -> str:
        """Hash of the settings that can change an output; addresses and sizes do not count.

        Only a part of `config_version`, which the datasets belong to as well.
        """
        return sha256_hex(canonical_bytes(self.shaping))[:16]

    @property
    def shaping(self) -> dict[str, Any]:
        """The settings that can change an output."""
        rules = self.rules
        return {
            "settings": {s.key: self.values[s.key] for s in SETTINGS if s.shapes_output},
            "providers": sorted(rules.providers),
            "replay_reasons": dict(rules.custom_reasons),
            "exceptions": dict(rules.exceptions),
            "extensions": {dataset: sorted(names) for dataset, names in rules.extensions.items()},
            "policies": {dataset: dict(overlay) for dataset, overlay in self.policies.items()},
        }

    def text(self, key: str) -> str:
        """Return a setting that is text."""
        return str(self.values[key])

    def number(self, key: str) -> float:
        """Return a setting that is a number."""
        return float(self.values[key])

    def integer(self, key: str) -> int:
        """Return a setting that is a whole number."""
        return int(self.values[key])

    def flag(self, key: str) -> bool:
        """Return a setting that is on or off."""
        return bool(self.values[key])


def load_config(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Value] | None = None,
    defaults: Mapping[str, Value] | None = None,
) -> Config:
    """Read the configuration; anything that cannot be used is refused with its place and a fix.

    Without `file`, the one that ``TALLGRASS_CONFIG`` names is read, else ``tallgrass.toml`` here if
    there is one. `defaults` stand in for those of settings that nobody gives.
    """
    environment = os.environ if environment is None else environment
    file = _find_file(file, environment)
    values: dict[str, Value] = {s.key: s.default for s in SETTINGS} | dict(defaults or {})
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
    return Config(
        values=values,
        origins=origins,
        tables=tables,
        file=file,
        rules=_rules(values, tables, str(file)),
        routing=_routing(values, tables, str(file)),
        policies=_policies(tables, str(file)),
    )


def _find_file(file: Path | None, environment: Mapping[str, str]) -> Path | None:
    if file is None and not environment.get("TALLGRASS_CONFIG"):
        default = Path(DEFAULT_FILE)
        return default if default.is_file() else None
    if file is None:
        file = Path(_text(environment, "TALLGRASS_CONFIG"))
    try:
        there = file.is_file()
    except OSError as exc:  # a folder that may not be looked into, a name that is too long
        raise ConfigError(f"cannot read {file}: {exc.strerror}") from exc
    if not there:
        raise ConfigError(f"there is no configuration file {file}")
    return file


def _read_toml(file: Path) -> dict[str, object]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        _require_small_numbers(table)
    except (ValueError, RecursionError) as exc:  # also too long a number, too many brackets
        raise ConfigError(f"{file} is not TOML: {exc}") from exc
    except OSError as exc:
        raise ConfigError(f"cannot read {file}: {exc.strerror}") from exc
    return table


def _require_small_numbers(value: object) -> None:
    """Refuse whole numbers that TOML does not have, though Python has them."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _require_small_numbers(inner)
    elif isinstance(value, int) and abs(value) > _INTEGER_MAX:
        message = "a whole number has at most 64 bits"
        raise ValueError(message)


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the file's keys with their values; what is no section is a setting or a table."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key in _SECTIONS:
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[Setting, str]]:
    by_variable = {setting.variable: setting for setting in SETTINGS}
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name.startswith(_TEST_PREFIX) or name in NOT_SETTINGS:
            continue
        if name not in by_variable:
            raise ConfigError(f"unknown variable {name}{did_you_mean(name, by_variable)}")
        yield by_variable[name], _text(environment, name)


def _text(environment: Mapping[str, str], name: str) -> str:
    """Return a variable; bytes that are no text could neither be stored nor shown."""
    value = environment[name]
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise ConfigError(f"${name} is not UTF-8: {value!r}")
    return value


def _known(key: str, place: str) -> Setting:
    if key in _SECTIONS:
        raise ConfigError(f"{place}: {key} must be a table")
    if key not in _BY_KEY:
        known = (*_BY_KEY, *TABLES, *sorted(_SECTIONS))
        raise ConfigError(f"{place}: unknown key {key!r}{did_you_mean(key, known)}")
    return _BY_KEY[key]


def _parsed(setting: Setting, text: str) -> Value:
    """Read a variable's text as the type of its setting."""
    if isinstance(setting.default, bool):
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() not in words:
            raise ConfigError(f"${setting.variable}: {text!r} is neither true nor false")
        return words[text.lower()]
    if isinstance(setting.default, int | float):
        try:
            return type(setting.default)(text)
        except ValueError:
            raise ConfigError(f"${setting.variable}: {text!r} is not a number") from None
    return text


def _typed(setting: Setting, value: object, place: str) -> Value:
    wanted = type(setting.default)
    if wanted is float and type(value) is int:
        value = float(value)
    if type(value) is not wanted:
        raise ConfigError(f"{place}: {setting.key} must be {_TYPE_NAMES[wanted]}, not {value!r}")
    if problem := setting.check(value):
        raise ConfigError(f"{place}: {setting.key} {problem}, not {value!r}")
    return value


def _rules(values: Mapping[str, Value], tables: Mapping[str, object], place: str) -> LedgerRules:
    """Build the ledger's rules; whatever they refuse is told with the file that says it."""
    reasons = _entries(tables, "ledger.replay_reasons", _REASON_KEYS, ("description",))
    exceptions = _entries(tables, "ledger.exceptions", _EXCEPTION_KEYS)
    try:
        return LedgerRules(
            max_attempts=int(values["ledger.max_attempts"]),
            backoff=Backoff(
                base_s=float(values["ledger.retry_base_s"]),
                cap_s=float(values["ledger.retry_cap_s"]),
            ),
            allow_partial=bool(values["ledger.allow_partial"]),
            allow_suspect=bool(values["ledger.allow_suspect"]),
            reingest=bool(values["ledger.reingest"]),
            providers=PROVIDERS | _names(tables.get("ledger.providers", []), "ledger.providers"),
            custom_reasons={code: CustomReason(code=code, **body) for code, body in reasons},
            exceptions={name: DatasetException(dataset=name, **body) for name, body in exceptions},
            extensions={
                dataset: _names(names, f"ledger.extensions.{dataset}")
                for dataset, names in _table(tables, "ledger.extensions").items()
            },
        )
    except ConfigError as exc:
        raise ConfigError(f"{place}: {exc}", code=exc.code) from exc


def _routing(values: Mapping[str, Value], tables: Mapping[str, object], place: str) -> Routing:
    """Build the routing of events; whatever it refuses is told with the file that says it."""
    try:
        return parse_routing(
            tables.get("outbox.targets", {}),
            tables.get("outbox.routes", []),
            lineage_target=str(values["outbox.lineage_target"]),
        )
    except ConfigError as exc:
        raise ConfigError(f"{place}: {exc}", code=exc.code) from exc


def _policies(tables: Mapping[str, object], place: str) -> dict[str, Overlay]:
    """Read what policies say; whatever they cannot say is told with the file that says it."""
    key = "governance.policies"
    overlays = {}
    for name, body in _table(tables, key).items():
        if not isinstance(body, dict):
            raise ConfigError(f"{place}: {key}.{name} must be a table")
        try:
            overlays[name] = load_overlay(Table(body, place, f"{key}.{name}"))
        except ConfigError as exc:
            raise ConfigError(str(exc)) from exc
    return overlays


def _entries(
    tables: Mapping[str, object],
    key: str,
    types: Mapping[str, type],
    required: tuple[str, ...] = (),
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the checked body of each ``[key.NAME]``.

    A body without `approval_ref` gets an empty one, which its class refuses.
    """
    for name, body in _table(tables, key).items():
        where = f"{key}.{name}"
        checked = _body(body, where, types)
        for field_name in required:
            if field_name not in checked:
                raise ConfigError(f"{where}: {field_name} is missing")
        yield name, {"approval_ref": "", **checked}


def _body(body: object, where: str, types: Mapping[str, type]) -> dict[str, Any]:
    """Return a table whose keys are known and whose values have their types."""
    if not isinstance(body, dict):
        raise ConfigError(f"{where} must be a table")
    for field_name, value in body.items():
        if field_name not in types:
            raise ConfigError(
                f"{where}: unknown key {field_name!r}{did_you_mean(field_name, types)}"
            )
        # An exact type: to Python, true is a whole number too.
        if type(value) is not types[field_name]:
            wanted = _TYPE_NAMES[types[field_name]]
            raise ConfigError(f"{where}.{field_name} must be {wanted}, not {value!r}")
    return body


def _table(tables: Mapping[str, object], key: str) -> dict[str, object]:
    table = tables.get(key, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{key} must be a table")
    return table


def _names(value: object, where: str) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise ConfigError(f"{where} must be a list of names, not {value!r}")
    return frozenset(value)
