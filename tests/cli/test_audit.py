"""`tallgrass audit list|seal|verify`: whatever is done to the log behind its back is found."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.governance.switches import SwitchScope
from tests.cli.command import tallgrass

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

ACTORS = ("j.doe", "a.roe", "j.doe", "a.roe", "j.doe")


def switch(backend: Backend, *actors: str) -> None:
    """Write one entry for each actor."""
    stores = backend.open()
    for number, actor in enumerate(actors):
        stores.switches.set(
            SwitchScope.REPLAY, f"d{number}", is_on=number % 2 == 0, actor=actor, reason="because"
        )
    stores.close()


@pytest.fixture
def sealed(backend: Backend, tmp_path: Path) -> tuple[Backend, Path]:
    """Five sealed entries, and the anchor file with the chain's head."""
    switch(backend, *ACTORS)
    anchors = tmp_path / "anchors.jsonl"
    assert tallgrass("audit", "seal", "--anchor", str(anchors), at=backend).code == 0
    return backend, anchors


def break_in(backend: Backend, *statements: str) -> None:
    """Change the log as someone with full rights could: without its triggers."""
    if backend.name == "postgres":
        for table in ("audit_log", "audit_seals"):
            backend.sql(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    else:
        names = backend.sql(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'audit%'"
        )
        assert names
        for (name,) in names:
            backend.sql(f"DROP TRIGGER {name}")
    for statement in statements:
        backend.sql(statement)


def entry_ids(backend: Backend) -> list[int]:
    """Return the ids of all entries, in order."""
    return [row[0] for row in backend.sql("SELECT entry_id FROM audit_log ORDER BY entry_id")]


def verified(backend: Backend, *flags: str, **options: Any) -> tuple[int, dict[str, Any]]:
    """Verify, and return the exit code and the report."""
    done = tallgrass("audit", "verify", *flags, "--output", "json", at=backend, **options)
    report: dict[str, Any] = done.json
    assert set(report) == {"ok", "sealed", "unsealed", "archived", "head", "anchors", "faults"}
    assert report["ok"] is (done.code == 0)
    if done.code:
        assert done.error["code"] == "audit_broken"
    return done.code, report


def test_seal_writes_the_head_that_the_table_holds(sealed: tuple[Backend, Path]) -> None:
    """The anchor line has position, hash and time; sealing again without news adds none."""
    backend, anchors = sealed
    (line,) = anchors.read_text().splitlines()
    anchor = json.loads(line)
    assert set(anchor) == {"position", "chain_hash", "sealed_at"}
    assert backend.sql("SELECT position, chain_hash FROM audit_seals WHERE position = 5") == [
        (anchor["position"], anchor["chain_hash"])
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", anchor["sealed_at"])
    again = tallgrass("audit", "seal", "--anchor", str(anchors), "--output", "json", at=backend)
    assert again.json["anchored"] is False
    assert len(anchors.read_text().splitlines()) == 1
    switch(backend, "j.doe")
    assert tallgrass("audit", "seal", "--anchor", str(anchors), at=backend).code == 0
    assert [json.loads(line)["position"] for line in anchors.read_text().splitlines()] == [5, 6]
    assert verified(backend, "--anchor", str(anchors))[0] == 0


def test_an_unbroken_chain_verifies(sealed: tuple[Backend, Path]) -> None:
    """Exit code 0, five sealed, none waiting; a new entry waits for the next seal."""
    backend, anchors = sealed
    code, report = verified(backend, "--anchor", str(anchors))
    assert code == 0
    assert (report["sealed"], report["unsealed"], report["anchors"]) == (5, 0, 1)
    assert report["head"] == {
        "position": 5,
        "chain_hash": backend.sql("SELECT chain_hash FROM audit_seals WHERE position = 5")[0][0],
    }
    switch(backend, "j.doe")
    assert verified(backend)[1]["unsealed"] == 1
    assert "holds" in tallgrass("audit", "verify", at=backend).out


def test_an_edited_entry_is_found(sealed: tuple[Backend, Path]) -> None:
    """One word changed in entry 2: that entry is named."""
    backend, _ = sealed
    second = entry_ids(backend)[1]
    break_in(backend, f"UPDATE audit_log SET actor = 'nobody' WHERE entry_id = {second}")
    code, report = verified(backend)
    assert code == 1
    assert report["faults"] == [{"position": 2, "what": f"entry {second} was edited"}]
    table = tallgrass("audit", "verify", at=backend)
    assert table.code == 1
    assert f"seal 2: entry {second} was edited" in table.out


def test_a_removed_entry_is_found(sealed: tuple[Backend, Path]) -> None:
    """Entry 3 gone, with or without its seal: found at its place."""
    backend, _ = sealed
    third = entry_ids(backend)[2]
    break_in(backend, f"DELETE FROM audit_log WHERE entry_id = {third}")
    code, report = verified(backend)
    assert (code, report["faults"]) == (
        1,
        [{"position": 3, "what": f"entry {third} was removed"}],
    )
    backend.sql("DELETE FROM audit_seals WHERE position = 3")
    code, report = verified(backend)
    assert code == 1
    assert report["faults"][0] == {"position": 3, "what": "seals 3 to 3 were removed"}


def test_reordered_entries_are_found(sealed: tuple[Backend, Path]) -> None:
    """Seals 2 and 3 exchanged, each still with its own entry: the links do not fit."""
    backend, _ = sealed
    break_in(
        backend,
        "UPDATE audit_seals SET position = 99 WHERE position = 2",
        "UPDATE audit_seals SET position = 2 WHERE position = 3",
        "UPDATE audit_seals SET position = 3 WHERE position = 99",
    )
    code, report = verified(backend)
    assert code == 1
    assert {fault["position"] for fault in report["faults"]} >= {2, 3}
    assert all("reordered" in fault["what"] for fault in report["faults"])


def test_a_cut_off_tail_is_found_by_the_anchor(sealed: tuple[Backend, Path]) -> None:
    """The last two entries and seals gone: the chain alone looks whole, the anchor tells."""
    backend, anchors = sealed
    last = entry_ids(backend)[3:]
    break_in(
        backend,
        "DELETE FROM audit_seals WHERE position > 3",
        f"DELETE FROM audit_log WHERE entry_id IN ({last[0]}, {last[1]})",
    )
    assert verified(backend)[0] == 0
    code, report = verified(backend, "--anchor", str(anchors))
    assert code == 1
    assert report["faults"] == [
        {"position": 5, "what": "the anchor knows seal 5, the log ends at 3"}
    ]
    # Nor can a new head be anchored over the lost one.
    seal = tallgrass("audit", "seal", "--anchor", str(anchors), "--output", "json", at=backend)
    assert (seal.code, seal.error["code"]) == (1, "audit_broken")
    assert len(anchors.read_text().splitlines()) == 1


def test_a_chain_that_was_written_anew_is_found_by_the_anchor(
    sealed: tuple[Backend, Path],
) -> None:
    """All seals replaced by a chain that fits edited entries: only the anchor disagrees."""
    backend, anchors = sealed
    second = entry_ids(backend)[1]
    break_in(
        backend,
        f"UPDATE audit_log SET actor = 'nobody' WHERE entry_id = {second}",
        "DELETE FROM audit_seals",
    )
    stores = backend.open()
    stores.audit.seal()
    stores.close()
    assert verified(backend)[0] == 0
    assert verified(backend, "--anchor", str(anchors))[0] == 1
    seal = tallgrass("audit", "seal", "--anchor", str(anchors), "--output", "json", at=backend)
    assert (seal.code, seal.error["code"]) == (1, "audit_broken")
    # Even if the forged head stands in the file beside the true one.
    forged = backend.sql("SELECT chain_hash FROM audit_seals WHERE position = 5")[0][0]
    with anchors.open("a") as file:
        file.write(json.dumps({"position": 5, "chain_hash": forged}) + "\n")
    assert verified(backend, "--anchor", str(anchors))[0] == 1


@pytest.mark.parametrize(
    "content",
    [None, "", "hello\n", '{"position": 0, "chain_hash": "x"}\n', "[1]\n", '{"position": 1}\n'],
    ids=["missing", "empty", "text", "no-hash", "list", "half"],
)
def test_an_anchor_file_that_is_none_is_refused(content: str | None, tmp_path: Path) -> None:
    """A missing or foreign file: exit code 2, anchor_invalid, before a database is opened."""
    file = tmp_path / "anchors"
    if content is not None:
        file.write_text(content)
    done = tallgrass(
        "audit", "verify", "--anchor", str(file), "--output", "json", at="sqlite:////no/where.db"
    )
    assert (done.code, done.error["code"]) == (2, "anchor_invalid")


def test_the_configured_anchor_file_is_the_default(sealed: tuple[Backend, Path]) -> None:
    """`audit.anchor_file` is used without `--anchor`; one that was named must be there."""
    backend, anchors = sealed
    _, report = verified(backend, env={"TALLGRASS_AUDIT_ANCHOR_FILE": str(anchors)})
    assert report["anchors"] == 1
    missing = tallgrass(
        "audit", "verify", "--output", "json",
        at=backend, env={"TALLGRASS_AUDIT_ANCHOR_FILE": f"{anchors}.no"},
    )  # fmt: skip
    assert missing.error["code"] == "anchor_invalid"
    there = tallgrass("audit", "seal", at=backend, cwd=anchors.parent)
    assert there.code == 0
    assert (anchors.parent / "tallgrass-audit-anchors.jsonl").exists()
    assert verified(backend, cwd=anchors.parent)[1]["anchors"] == 1


def test_an_anchor_that_cannot_be_written_seals_nothing(backend: Backend, tmp_path: Path) -> None:
    """The place is looked at first: no seal without its anchor."""
    switch(backend, "j.doe")
    target = str(tmp_path / "no" / "anchors")
    done = tallgrass("audit", "seal", "--anchor", target, "--output", "json", at=backend)
    assert done.error["code"] == "anchor_invalid"
    assert done.error["message"].endswith(f"{target}: there is no folder {tmp_path / 'no'}")
    assert backend.sql("SELECT count(*) FROM audit_seals") == [(0,)]


def test_each_filter_of_list(backend: Backend) -> None:
    """Actor, action and subject choose entries; pages go on after the cursor."""
    switch(backend, *ACTORS)

    def subjects(*flags: str) -> list[str]:
        done = tallgrass("audit", "list", *flags, "--output", "json", at=backend)
        assert set(done.json) == {"entries", "next_cursor"}
        return [entry["subject"] for entry in done.json["entries"]]

    everything = [f"replay:d{number}" for number in range(5)]
    assert subjects() == everything
    assert subjects("--actor", "a.roe") == [everything[1], everything[3]]
    assert subjects("--action", "switch_on") == [everything[0], everything[2], everything[4]]
    assert subjects("--subject", "replay:d3") == [everything[3]]
    assert subjects("--actor", "a.roe", "--action", "switch_on") == []
    page = tallgrass("audit", "list", "--limit", "2", "--output", "json", at=backend).json
    assert page["next_cursor"] == entry_ids(backend)[1]
    assert subjects("--limit", "3", "--after", str(page["next_cursor"])) == everything[2:]
    assert page["entries"][0]["detail"] == {"proved": False}
    assert page["entries"][0]["position"] is None
    table = tallgrass("audit", "list", "--limit", "2", at=backend).out
    assert f"More: --after {page['next_cursor']}" in table
    assert "No entries match" in tallgrass("audit", "list", "--actor", "x", at=backend).out
