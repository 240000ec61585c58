"""The documents of docs/idempotency say what the code does."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.sinks import open_target, sink_resources
from tallgrass.config import load_config
from tallgrass.error_codes import registry
from tallgrass.outbox import Event
from tallgrass.outbox.publication import Facts
from tallgrass.settings import SETTINGS
from tallgrass.sinks.cloud_event import cloud_event
from tests.documents.markdown import DOCS, ROOT, code_block, code_blocks, read, rows, section
from tests.support.backends import Backend, prepare
from tests.support.outbox import ONE, RULES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugins.postgres import Databases

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


def test_the_routes_that_are_shown_can_be_used(tmp_path: Path, aws_environment: None) -> None:
    """The configuration is read, and its target opens with the settings that it is given."""
    shown = code_block(section(read(FOLDER / "outbox.md"), "Routing"), "toml")
    file = tmp_path / "tallgrass.toml"
    file.write_text(shown, encoding="utf-8")
    config = load_config(file=file, environment={})
    with sink_resources(config) as resources:
        open_target(config.routing.targets["lake"], resources).close()


def test_the_python_of_the_outbox_page_runs(
    postgres_databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """outbox.md: published with the pipeline's own change, masked where told, handled once."""
    template = postgres_databases.template("ledger", lambda url: prepare("postgres", url).close())
    backend = Backend("postgres", postgres_databases.create(template))
    backend.sql("CREATE TABLE runs (run integer, state text)")
    backend.sql("INSERT INTO runs VALUES (42, 'begun')")
    backend.sql("CREATE TABLE seen AS SELECT 0 AS events")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TALLGRASS_DATABASE_URL", backend.url)
    publishing, masking, consuming = code_blocks(read(FOLDER / "outbox.md"), "python")
    names: dict[str, Any] = {"connection": backend.connect()}
    exec(publishing, names)  # noqa: S102 - the document's own example
    exec(publishing, names)  # noqa: S102 - again: it is the same event
    assert backend.sql("SELECT state FROM runs") == [("done",)]
    assert backend.sql("SELECT count(*) FROM outbox") == [(1,)]
    exec(masking, names)  # noqa: S102 - as above
    place = {"site": "POINT(-95.2353 38.9717)"}
    told = Event(
        pipeline_id="p", event_name="seen", dataset_id="d", version="1.0.0", payload=place,
        care_label="public",
    )  # fmt: skip
    with names["connection"].transaction():
        names["careful"].publish(names["connection"], told)
    [[masked]] = backend.sql("SELECT payload FROM outbox WHERE event_name = 'seen'")
    assert b"38.9717" not in bytes(masked)
    (claimed,) = backend.open().outbox.claim("file", dispatcher=ONE, limit=1, rules=RULES).events
    names["event"] = json.loads(cloud_event(claimed.event))
    exec(consuming, names)  # noqa: S102 - as above
    exec(consuming, names)  # noqa: S102 - a repetition, which is dropped
    assert backend.sql("SELECT events FROM seen") == [(1,)]
    names["connection"].close()
    backend.close()
    postgres_databases.drop(backend.url)
