"""`tallgrass demo`: one seed, one story; every promise counted in the tables."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.cli.command import environment, tallgrass

if TYPE_CHECKING:
    from pathlib import Path

PLACES = {"database", "anchor_file"}


def played(folder: Path, *flags: str) -> dict[str, Any]:
    """Play a small demo and return its document."""
    done = tallgrass("demo", "--units", "400", "--dir", str(folder), *flags, "--output", "json")
    assert done.code == 0, done.err
    document: dict[str, Any] = done.json
    return document


def test_the_demo_tells_what_its_database_holds(tmp_path: Path) -> None:
    """All promises hold, and the counts are those of plain SQL on the file that it left."""
    told = played(tmp_path / "d")
    assert told["ok"] is True
    assert all(proof["holds"] for proof in told["proofs"])
    assert len(told["proofs"]) >= 12
    with sqlite3.connect(told["database"]) as connection:
        counts = dict(
            connection.execute("SELECT status, count(*) FROM wal_records GROUP BY status")
        )
        killer = connection.execute(
            "SELECT status, attempts, lease_expiries FROM wal_records WHERE wal_id = ?",
            (told["killer"],),
        ).fetchall()
        reingested = connection.execute(
            "SELECT count(*) FROM wal_attempts WHERE intent = 'reingest' AND status = 'applied'"
        ).fetchone()[0]
        switched = connection.execute(
            "SELECT action FROM audit_log WHERE actor = 'demo-operator' ORDER BY entry_id"
        ).fetchall()
    assert {status: n for status, n in told["became"].items() if n} == counts
    assert sum(counts.values()) == told["units"] == 400
    assert killer == [("quarantined", 8, 8)]
    assert reingested == told["overwritten"] > 0
    assert switched == [("switch_on",), ("switch_off",)]
    assert told["duplicates"] > 0
    assert told["parked"] > 0
    assert told["workers_killed"] == 8
    verify = tallgrass(
        "audit", "verify", "--anchor", told["anchor_file"], at=f"sqlite:///{told['database']}"
    )
    assert verify.code == 0


def test_one_seed_is_one_story(tmp_path: Path) -> None:
    """The same seed gives the same counts; another seed another story."""

    def story(name: str, seed: str) -> dict[str, Any]:
        told = played(tmp_path / name, "--seed", seed)
        return {key: value for key, value in told.items() if key not in PLACES}

    first = story("a", "5")
    assert story("b", "5") == first
    assert story("c", "6") != first


def test_the_summary_is_for_a_newcomer(tmp_path: Path) -> None:
    """Story, counts, ticks, where the file is, and commands that work as they stand."""
    done = tallgrass("demo", "--units", "300", "--dir", str(tmp_path))
    assert done.code == 0
    for part in (
        "A worker dies",
        "What became of them",
        "✔",
        "promises hold",
        "tallgrass wal stats",
    ):
        assert part in done.out
    assert f"sqlite:///{tmp_path}/ledger.db" in done.out
    assert "✘" not in done.out


def test_a_demo_writes_over_nothing(tmp_path: Path) -> None:
    """A folder that holds a ledger already: refused with exit code 3, the file is as it was."""
    (tmp_path / "ledger.db").write_text("mine")
    done = tallgrass("demo", "--dir", str(tmp_path), "--output", "json")
    assert (done.code, done.error["code"]) == (3, "refused")
    assert (tmp_path / "ledger.db").read_text() == "mine"


def test_a_broken_promise_fails_the_demo(tmp_path: Path) -> None:
    """If a count is not what the story asks for, the command says which and ends with 1."""
    code = (
        "import sys\n"
        "from tallgrass.simulate import play\n"
        "honest = play.LedgerDemo.run\n"
        "def lying(self):\n"
        "    honest(self)\n"
        "    self.story.overwritten += 1\n"
        "play.LedgerDemo.run = lying\n"
        "from tallgrass.cli.main import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--units", "300", "--dir", str(tmp_path)],
        capture_output=True,
        check=False,
        text=True,
        env=environment(),
    )
    assert done.returncode == 1
    assert "promise_broken" in done.stderr
    assert "✘ Duplicates changed nothing" in done.stdout
