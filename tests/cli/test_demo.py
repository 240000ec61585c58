"""`tallgrass demo`: one seed, one catalog; every promise counted in the tables."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.command import environment, tallgrass
from tests.cli.test_terminal import on_terminal
from tests.oracle.verdict import verdict
from tests.support.catalog import spanned

KEYS = [
    "units", "by_status", "messages", "announcements", "ignored", "poison", "duplicates", "items",
    "catalog_sha256", "seconds", "units_per_second", "folder",
]  # fmt: skip


def played(folder: Path, *flags: str, **env: str) -> dict[str, Any]:
    """Play a small demo and return its document."""
    arguments = ("--units", "300", "--dir", str(folder), *flags, "--output", "json")
    done = tallgrass("demo", *arguments, env=env)
    assert done.code == 0, done.err
    assert done.err == ""
    document: dict[str, Any] = done.json
    return document


def rows(database: Path, statement: str) -> list[tuple[Any, ...]]:
    """Query a file of the demo by plain SQL."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return connection.execute(statement).fetchall()


def test_the_oracle_finds_that_every_promise_holds(tmp_path: Path) -> None:
    """What a demo leaves in its folder is enough for the oracle, which knows nothing of us."""
    played(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as ledger:
        manifest = json.loads((tmp_path / "manifest.json").read_bytes())
        assert len(manifest["units"]) == 300
        assert verdict(ledger, tmp_path / "queue.db", manifest) == []


def test_collections_tell_what_their_items_span(tmp_path: Path) -> None:
    """The catalog that a first run leaves says when its data are, without a further command."""
    played(tmp_path)
    spans = spanned(lambda query: rows(tmp_path / "ledger.db", query))
    assert set(spans) == {"goes-glm", "hrrr", "nexrad-l2"}


def test_the_document_tells_what_the_files_hold(tmp_path: Path) -> None:
    """Each figure is that of plain SQL on ledger and queue; all messages are accounted for."""
    told = played(tmp_path)
    assert list(told) == KEYS
    assert told["folder"] == str(tmp_path)
    ledger = tmp_path / "ledger.db"
    counts = dict(rows(ledger, "SELECT status, count(*) FROM wal_records GROUP BY status"))
    assert {status: n for status, n in told["by_status"].items() if n} == counts
    assert sum(counts.values()) == told["units"] == 300
    bodies = rows(ledger, "SELECT body, sha256 FROM stac_items ORDER BY collection_id, item_id")
    assert told["items"] == len(bodies) == counts["succeeded"]
    assert told["catalog_sha256"] == hashlib.sha256(b"".join(b for b, _ in bodies)).hexdigest()
    assert all(hashlib.sha256(body).hexdigest() == digest for body, digest in bodies)
    # By hand: 300 units with the shares 1 % poison, 1 % deletions, 2 % sidecars, 0.2 % tests (1).
    assert (told["poison"], told["ignored"]) == (3, 3 + 6 + 1)
    assert told["duplicates"] > 0
    assert told["messages"] == sum(
        told[name] for name in ("announcements", "ignored", "poison", "duplicates")
    )
    assert told["units_per_second"] > 0
    assert rows(tmp_path / "queue.db", "SELECT count(*) FROM messages") == [(0,)]
    switched = "SELECT action FROM audit_log WHERE actor = 'demo-operator' ORDER BY entry_id"
    assert rows(ledger, switched) == [("switch_on",), ("switch_off",)]
    assert rows(ledger, "SELECT count(*) FROM workers WHERE fenced_at IS NOT NULL") == [(1,)]


def test_the_story_is_that_of_the_feed_alone(tmp_path: Path) -> None:
    """What became of each object is what `simulate` writes down for the same seed."""
    played(tmp_path / "d", "--seed", "9")
    manifest = tmp_path / "m.json"
    tallgrass(
        "simulate", "--units", "300", "--seed", "9", "--dir", str(tmp_path / "s"),
        "--manifest", str(manifest),
    )  # fmt: skip
    expected = {
        unit["object_uri"]: unit["expected"] for unit in json.loads(manifest.read_bytes())["units"]
    }
    became = dict(rows(tmp_path / "d" / "ledger.db", "SELECT object_uri, status FROM wal_records"))
    held = {"quarantined": "failed"}
    assert {uri: held.get(status, status) for uri, status in became.items()} == expected


def test_one_seed_is_one_catalog(tmp_path: Path) -> None:
    """Same seed, other folder, time zone and hash seed: same bytes; another seed: others."""
    first = played(tmp_path / "a", "--seed", "5", PYTHONHASHSEED="1", TZ="Asia/Kolkata")
    second = played(tmp_path / "b" / "c", "--seed", "5", PYTHONHASHSEED="77", TZ="America/Lima")
    own = {"seconds", "units_per_second", "folder"}
    assert {k: v for k, v in first.items() if k not in own} == {
        k: v for k, v in second.items() if k not in own
    }
    other = played(tmp_path / "d", "--seed", "6")
    assert other["catalog_sha256"] != first["catalog_sha256"]


def test_the_environment_changes_no_demo(tmp_path: Path) -> None:
    """Settings of this machine's pipeline, by variable or by a file here, do not count."""
    (tmp_path / "tallgrass.toml").write_text('[queue]\nname = "from-a-file"\n')
    done = tallgrass(
        "demo", "--units", "20", "--dir", "b", cwd=tmp_path, env={"TALLGRASS_QUEUE_NAME": "mine"}
    )
    assert done.code == 0
    queues = rows(tmp_path / "b" / "ledger.db", "SELECT DISTINCT queue FROM wal_records")
    assert queues == [("nodd-primary",)]


def test_a_single_unit_is_a_demo(tmp_path: Path) -> None:
    """The smallest feed plays through as well."""
    told = tallgrass("demo", "--units", "1", "--dir", str(tmp_path), "--output", "json").json
    assert (told["units"], sum(told["by_status"].values())) == (1, 1)


def test_the_summary_is_for_a_newcomer(tmp_path: Path) -> None:
    """What came in, what became of it, ticks, where it is, and commands that work as they stand."""
    done = tallgrass("demo", "--units", "300", "--dir", str(tmp_path))
    assert done.code == 0
    for part in (
        "A worker dies",
        "What came in: ",
        "What became of each unit",
        "What was promised, counted in the tables",
        "All 19 promises hold.",
        "STAC items with their provenance",
        f"export TALLGRASS_CONFIG={tmp_path}/tallgrass.toml",
    ):
        assert part in done.out
    assert "✘" not in done.out
    suggested = [line.split("tallgrass ", 1)[1] for line in done.out.splitlines()
                 if line.startswith("  python -m tallgrass ")]  # fmt: skip
    assert len(suggested) == 5
    for words in suggested:
        tried = tallgrass(*words.split(), env={"TALLGRASS_CONFIG": f"{tmp_path}/tallgrass.toml"})
        assert (tried.code, bool(tried.out)) == (0, True), words


def test_a_demo_measures_its_energy(tmp_path: Path) -> None:
    """The telemetry of a demo has energy and carbon of each attempt, marked as estimated."""
    assert tallgrass("demo", "--units", "40", "--dir", str(tmp_path)).code == 0
    config = ("--config", str(tmp_path / "tallgrass.toml"))
    done = tallgrass(*config, "telemetry", "export", "--dir", str(tmp_path), "--release", "v1.0.0")
    assert done.code == 0, done.err
    told = json.loads((tmp_path / "releases/v1.0.0/nodd-sns-telemetry.json").read_bytes())
    assert told["energy"]["estimated"] is True
    assert told["energy"]["attempts"] >= 40
    assert told["energy"]["wh_per_attempt"] > 0
    assert told["carbon"]["gco2e_per_attempt"] > 0


def test_a_terminal_sees_it_go_on(tmp_path: Path) -> None:
    """On a terminal there is a bar while it runs; a pipe gets the story alone."""
    shown = on_terminal("demo", "--units", "60", "--dir", str(tmp_path))
    assert "Notifications come in" in shown
    assert "━" in shown
    assert "\x1b[" in shown


def test_a_demo_writes_over_nothing(tmp_path: Path) -> None:
    """A folder that holds a part of one already: refused with exit code 3, nothing changed."""
    for name in ("ledger.db", "queue.db", "tallgrass.toml", "audit-anchors.jsonl", "energy.jsonl"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("mine")
        done = tallgrass("demo", "--dir", str(folder), "--output", "json")
        assert (done.code, done.error["code"]) == (3, "refused")
        assert [path.read_text() for path in folder.iterdir()] == ["mine"]


def test_a_broken_promise_fails_the_demo(tmp_path: Path) -> None:
    """If a count is not what the feed asks for, the command says which and ends with 1."""
    code = (
        "import sys\n"
        "from tallgrass.simulate import pipeline_demo\n"
        "honest = pipeline_demo.PipelineDemo.run\n"
        "def lying(self):\n"
        "    honest(self)\n"
        "    self.queue.send([b'one that nobody took'])\n"
        "pipeline_demo.PipelineDemo.run = lying\n"
        "from tallgrass.cli.main import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--units", "60", "--dir", str(tmp_path)],
        capture_output=True,
        check=False,
        text=True,
        env=environment(),
    )
    assert done.returncode == 1
    assert "promise_broken" in done.stderr
    assert "✘ … and none is left in the queue" in done.stdout
    assert "promises hold" not in done.stdout


def test_a_folder_whose_path_is_no_text_is_refused(tmp_path: Path) -> None:
    """The configuration that the demo leaves could not name it; nothing is made there."""
    here = Path(os.fsdecode(os.fsencode(tmp_path) + b"/no-\xff"))
    here.mkdir()
    done = tallgrass("demo", "--units", "1", "--dir", "demo", "--output", "json", cwd=here)
    assert (done.code, done.error["code"]) == (2, "invalid_input")
    assert list(here.iterdir()) == []
