from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tallgrass
from tallgrass import errors
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.error_codes import (
    CodeScope,
    is_error_code,
    is_unit_code,
    lookup,
    nearest,
    registry,
)
from tallgrass.errors import InvalidInput, TallgrassError
from tallgrass.governance.gate import Rule
from tallgrass.intake.message import IgnoreReason
from tallgrass.inventory import reconcile
from tallgrass.inventory.backfill import PassedOver
from tallgrass.ledger import outcome, receipt
from tallgrass.ledger.outcome import is_retried
from tallgrass.ledger.vocabulary import JournalReason
from tallgrass.nodes.escalation import AlertKind
from tallgrass.poison_feeding import LeftOut
from tallgrass.release import verify as release_verify
from tallgrass.replay import verify
from tallgrass.replay.dead_letters import LetterReason
from tallgrass.replay.plan import SkipReason
from tallgrass.replay.run import RunSkip
from tallgrass.telemetry.freshness import Freshness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import StrEnum

SOURCE = Path(tallgrass.__file__).parent
RAW = tomllib.loads((SOURCE / "error_codes.toml").read_text(encoding="utf-8"))
#: Arguments and class attributes whose literal text is a code.
CODE_NAMES = {"code", "default_code", "error_code", "last_error_code"}
#: Codes of the operators' contracts that no operator of ours reports.
CONTRACTS_ONLY = {
    "stac_validation_failed",
    "storage_unavailable",
    "prov_store_unavailable",
    "openlineage_emit_failed",
}


def error_classes(base: type[TallgrassError] = TallgrassError) -> Iterator[type[TallgrassError]]:
    """Yield every error that the package declares."""
    yield base
    for derived in base.__subclasses__():
        yield from error_classes(derived)


def code_literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the literal codes of a module, with their lines."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.keyword | ast.Assign):
            continue
        name = node.arg if isinstance(node, ast.keyword) else ast.unparse(node.targets[0])
        value = node.value
        if name in CODE_NAMES and isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, value.value


@pytest.mark.conformance("WAL-3.7")
def test_every_code_has_a_meaning_and_a_remedy() -> None:
    """Each entry says in a sentence what it means and what to do about it."""
    for code, entry in registry().items():
        assert entry.meaning.endswith("."), code
        assert len(entry.meaning) > 20, code
        assert len(entry.remedy) > 10, code
        assert code == entry.code
        assert code.isascii()
        assert code.replace("_", "").isalnum()
        assert code == code.lower()
        assert len(code) <= 64


@pytest.mark.conformance("WAL-3.7")
def test_the_registry_is_closed() -> None:
    """The file has five scopes, no code in two, and no field beside the known ones."""
    assert set(RAW) == {"unit", "command", "guard", "reason", "finding"}
    names = [name for table in RAW.values() for name in table]
    assert len(names) == len(set(names))
    assert set(registry()) == set(names)
    for scope, table in RAW.items():
        for code, entry in table.items():
            fields = {"meaning", "remedy"} | ({"retried"} & set(entry))
            fields |= {"cause"} if scope == "unit" else set()
            assert set(entry) == fields, code
            assert is_unit_code(code) == (scope == "unit")
            assert registry()[code].scope == scope
            assert is_error_code(code) == (scope in {"unit", "command"})


@pytest.mark.conformance("WAL-3.7")
def test_only_unit_codes_are_retried() -> None:
    """A command is repeated by who gave it; only a unit is tried again by itself."""
    retried = {code for code, entry in registry().items() if entry.retried}
    assert retried
    assert all(registry()[code].scope is CodeScope.UNIT for code in retried)
    assert all(is_retried(code) for code in retried)
    assert not is_retried("size_zero")


@pytest.mark.parametrize(
    "code", ["governance_hard_fail", "attempts_exhausted", "quarantined_by_operator"]
)
def test_what_holds_a_unit_is_never_retried(code: str) -> None:
    """A code that stands for quarantine does not bring the unit back."""
    assert is_unit_code(code)
    assert not is_retried(code)


@pytest.mark.conformance("WAL-3.7")
def test_every_error_has_a_registered_code() -> None:
    """The default code of each error class is one of commands, with an entry."""
    classes = list(error_classes())
    declared = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, TallgrassError)
    }
    assert declared <= set(classes)
    for kind in classes:
        assert lookup(kind.default_code).scope is CodeScope.COMMAND, kind
        assert kind.exit_code in {1, 2, 3, 4}, kind


@pytest.mark.conformance("WAL-3.7")
def test_every_code_in_the_source_is_registered() -> None:
    """No module names a code that the registry does not explain."""
    found = {
        code: f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, code in code_literals(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert {"lease_expired", "config_invalid", "unknown_code", "schema_missing"} <= set(found)
    assert {code: place for code, place in found.items() if code not in registry()} == {}


#: Every vocabulary whose words commands, reports, answers of the API or the journal tell.
VOCABULARIES: tuple[type[StrEnum], ...] = (
    Rule,
    SkipReason,
    RunSkip,
    LetterReason,
    LeftOut,
    receipt.Action,
    outcome.Verdict,
    JournalReason,
    PassedOver,
    IgnoreReason,
    reconcile.Kind,
    verify.Verdict,
    release_verify.Kind,
    Freshness,
    AlertKind,
)


@pytest.mark.parametrize("words", VOCABULARIES, ids=lambda words: words.__qualname__)
def test_every_word_that_is_told_is_explained(words: type[StrEnum]) -> None:
    """A new guard, reason or finding cannot come without its meaning."""
    assert [word.value for word in words if word.value not in registry()] == []


def test_no_vocabulary_of_reasons_is_forgotten() -> None:
    """What is called a reason, a rule or what is left out is among those above."""
    named = {
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and "StrEnum" in {ast.unparse(base) for base in node.bases}
        and re.search("Reason|Skip|Rule|Left|Passed|Refus|Guard", node.name)
    }
    assert named == {"IgnoreReason", "JournalReason", "LetterReason", "SkipReason", "RunSkip",
                     "Rule", "LeftOut", "PassedOver"}  # fmt: skip
    assert named <= {words.__name__ for words in VOCABULARIES}


def test_every_guard_is_known_as_one() -> None:
    """By its own entry, or by that of the command that is refused under the same name."""
    scopes = {rule.value: registry()[rule.value].scope for rule in Rule}
    assert set(scopes.values()) == {CodeScope.GUARD, CodeScope.COMMAND}
    assert {name for name, scope in scopes.items() if scope is CodeScope.COMMAND} == {
        "not_authorized", "governance_ref_missing", "reference_missing",
    }  # fmt: skip


def test_every_reason_of_a_shipped_dataset_is_explained() -> None:
    """Keys that are no units say why in the datasets' files."""
    reasons = {rule.reason for each in default_catalogue().datasets for rule in each.key.ignore}
    assert {"sidecar", "not_ingestable"} <= reasons
    assert reasons - set(registry()) == set()


#: What calls give as a reason to the audit log alone, where people say what they like.
AUDIT_ONLY = {"", "asked for by the API", "follow", "policy"}


def test_every_reason_in_the_source_is_explained() -> None:
    """Nor does a module name a reason in passing."""
    found = {
        keyword.value.value: f"{path.relative_to(SOURCE)}:{keyword.value.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for keyword in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(keyword, ast.keyword)
        and keyword.arg == "reason"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
        and re.fullmatch(r"[a-z][a-z0-9_]*", keyword.value.value)
    }
    assert {"lease_expired", "attempts_exhausted"} <= set(found)
    unknown = {why: at for why, at in found.items() if why not in {*registry(), *AUDIT_ONLY}}
    # Words of people who try things out.
    assert {why for why, at in unknown.items() if not at.startswith("simulate/")} == set()


def test_only_errors_carry_codes() -> None:
    """A reason is no error's code, and no sink's."""
    with pytest.raises(KeyError, match="code_not_replayed"):
        InvalidInput("x", code="code_not_replayed")
    assert not is_error_code("code_not_replayed")
    assert not is_error_code(None)


def test_every_code_is_used_by_the_source() -> None:
    """Nothing is registered that nobody reports, but for the contracts' codes, which say so."""
    texts = [
        path.read_text(encoding="utf-8")
        for pattern in ("*.py", "*.sql", "datasets/files/*.toml")
        for path in SOURCE.rglob(pattern)
    ]
    literals = {code for text in texts for code in re.findall(r"""["']([a-z0-9_]+)["']""", text)}
    assert set(registry()) - literals == CONTRACTS_ONLY
    for code, entry in registry().items():
        assert ("Tallgrass never reports it" in entry.meaning) == (code in CONTRACTS_ONLY), code


@pytest.mark.conformance("WAL-3.7")
def test_an_error_with_an_unregistered_code_cannot_be_made() -> None:
    """Even inside the package a code must be registered, and a slip gets the nearest name."""
    with pytest.raises(KeyError, match="invalid_time"):
        InvalidInput("x", code="invalid_tim")


def test_an_error_shows_its_entry() -> None:
    """An error carries its code and, through it, meaning and remedy."""
    error = InvalidInput("x", code="invalid_time")
    assert error.code == "invalid_time"
    assert "RFC 3339" in error.about.remedy


def test_where_a_unit_s_code_is_asked_for_only_such_are_suggested() -> None:
    """A suggestion can be taken: no unit has the code of a command."""
    assert nearest("size_zer", scope=CodeScope.UNIT) == " (did you mean 'size_zero'?)"
    assert nearest("no_such_page") == " (did you mean 'no_such_page'?)"
    assert nearest("no_such_page", scope=CodeScope.UNIT) == ""
