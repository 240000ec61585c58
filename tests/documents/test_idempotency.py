"""The documents of docs/idempotency say what the code does."""

from __future__ import annotations

import json
import re

import pytest

from tallgrass.error_codes import registry
from tallgrass.outbox.publication import Facts
from tallgrass.settings import SETTINGS
from tests.documents.markdown import DOCS, ROOT, read, rows, section

FOLDER = DOCS / "idempotency"
NAMES = (
    "README.md",
    "key_spec.md",
    "outbox.md",
    "replay_engine.md",
    "retries.md",
    "state_store.md",
)


@pytest.mark.conformance("C-52")
def test_the_folder_holds_what_its_contract_lists() -> None:
    """Contract, key, outbox, state store, replay and retries; each named in the layout."""
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(NAMES)
    layout = section(read(FOLDER / "README.md"), "Layout")
    for name in NAMES:
        assert re.search(rf"[├└]── {re.escape(name)} ", layout), name
    for place in re.findall(r"`((?:src|examples)/[^`]+/)`", layout):
        assert (ROOT / place).is_dir(), place


@pytest.mark.conformance("C-34")
def test_the_printed_vectors_are_the_committed_ones() -> None:
    """Whoever checks an implementation by the page checks it by the same keys."""
    committed = json.loads(read(ROOT / "tests" / "vectors" / "event_keys.json"))
    keys = {vector["idempotency_key"] for vector in committed}
    printed = re.findall(r"`(sha256:[0-9a-f]{64})` \|$", read(FOLDER / "key_spec.md"), re.MULTILINE)
    assert len(printed) >= 10
    assert set(printed) <= keys


@pytest.mark.conformance("C-51")
def test_nobody_promises_a_single_delivery() -> None:
    """Delivery is at least once; no document says otherwise."""
    for path in DOCS.rglob("*.md"):
        text = read(path).lower()
        for claim in re.findall(r"[^.\n]*exactly[- ]once[^.\n]*", text):
            assert re.search(r"\b(no|not|never|nobody)\b", claim), f"{path.name}: {claim.strip()}"
    assert "at least once" in read(FOLDER / "README.md")


def test_settings_errors_and_facts_are_the_codes_own() -> None:
    """Names and defaults that the pages print exist as they say."""
    defaults = {setting.key: setting.default for setting in SETTINGS}
    for _, default, setting in rows(section(read(FOLDER / "retries.md"), "Rules")):
        assert float(default.split()[0]) == defaults[setting.strip("`")]
    rules = rows(section(read(FOLDER / "outbox.md"), "Payload rules"))
    assert {code.strip("`") for _, code in rules} <= set(registry())
    assert len(Facts._fields) == 10
