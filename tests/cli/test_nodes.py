"""`tallgrass nodes`: what a runner's folder holds, and what is made again from its journals."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import NodeFailed, TransientError
from tallgrass.nodes import NodeHooks, NodeRunner, RetryPolicy, current_node
from tallgrass.nodes.effects import effect
from tallgrass.nodes.lineage import FileLineage, Lineage
from tallgrass.nodes.signals import is_bubble_up
from tests.cli.command import here, tallgrass

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Done

START = datetime(2026, 11, 16, 6, 0, tzinfo=UTC)
RETRY = RetryPolicy(max_attempts=2, base_delay_s=0, max_delay_s=0)


class GraphBubbleUp(Exception):
    """Stands for LangGraph's signal."""


GraphBubbleUp.__module__ = "langgraph.errors"


def double(state: dict[str, Any]) -> dict[str, Any]:
    """A plain node."""
    return {"x": state["x"] * 2}


def flaky(state: dict[str, Any]) -> dict[str, Any]:
    """A node that fails at its first try."""
    if current_node().attempt == 1:
        raise TransientError("later")
    return {"x": state["x"] + 1}


def put(state: dict[str, Any]) -> dict[str, Any]:
    """A node that makes an effect, and then fails."""
    effect("put", key=f"object-{state['x']}", do=lambda: None)
    raise ValueError("the object is too large")


def take_back(_before: Any, _entry: Any) -> None:
    """Undo the effect."""


def asking(_state: dict[str, Any]) -> dict[str, Any]:
    """A node that waits for a person."""
    raise GraphBubbleUp


def run_node(runner: NodeRunner, name: str, function: Any, x: int, **options: Any) -> Any:
    """Run one node of version 1."""
    return runner.run(
        node_id=name, code_version="1", inputs={"x": x}, exec_fn=function, retry=RETRY, **options
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four runs: good (2 nodes, 3 tasks), hit (from the cache), bad (failed), asks (suspended).

    Each is written to a minute after the one before.
    """
    minutes = iter(range(1000))
    root = tmp_path / "work"

    def clock() -> datetime:
        return START + timedelta(seconds=next(minutes))

    hooks = NodeHooks(lineage=Lineage(FileLineage(root / "lineage")))
    with NodeRunner(root, pipeline="hydrology", clock=clock, hooks=hooks) as runner:
        for x in (1, 2):
            run_node(runner, "double", double, x, run_id="good")
        run_node(runner, "flaky", flaky, 4, run_id="good", dataset="gauges", care_label="public")
        run_node(runner, "double", double, 1, run_id="hit")
        with pytest.raises(ValueError, match="too large"):
            run_node(runner, "put", put, 7, run_id="bad", compensate_fn=take_back)
        with pytest.raises(GraphBubbleUp):
            run_node(runner, "asking", asking, 0, run_id="asks")
    for age, name in enumerate(("asks", "bad", "hit", "good")):
        at = START.timestamp() - 60 * age
        os.utime(root / "wal" / name / ".journal", (at, at))
    return root


def nodes(folder: Path, *args: str) -> Done:
    """Run a command about the folder, for its JSON."""
    return here("nodes", *args, "--dir", str(folder))


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder, by its place."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def cached(folder: Path) -> list[Path]:
    """Return the files of cached results."""
    return sorted(path for path in (folder / "cache").rglob("*") if path.is_file())


def test_runs_are_listed_newest_first(folder: Path) -> None:
    """Each with where it stands and how much it did; a look changes nothing."""
    assert is_bubble_up(GraphBubbleUp())
    before = files_of(folder)
    found = nodes(folder, "runs").json["runs"]
    assert [(each["run_id"], each["status"]) for each in found] == [
        ("asks", "suspended"), ("bad", "failed"), ("hit", "succeeded"), ("good", "succeeded"),
    ]  # fmt: skip
    counts = {each["run_id"]: [each[n] for n in ("nodes", "tasks", "attempts", "failed")]
              for each in found}  # fmt: skip
    assert counts == {
        "good": [2, 3, 4, 0], "hit": [1, 1, 0, 0], "bad": [1, 1, 1, 1], "asks": [1, 1, 1, 0],
    }  # fmt: skip
    assert all(each["begun_at"] < each["last_at"] for each in found if each["run_id"] != "hit")
    assert files_of(folder) == before


def test_runs_are_chosen_by_status_and_number(folder: Path) -> None:
    """The limit counts what is shown, not what was looked at; another folder has none of them."""
    page = ("runs", "--status", "succeeded", "--limit", "1")
    first = nodes(folder, *page).json
    assert ([each["run_id"] for each in first["runs"]], first["next_cursor"]) == (["hit"], "hit")
    second = nodes(folder, *page, "--after", "hit").json
    assert ([each["run_id"] for each in second["runs"]], second["next_cursor"]) == (["good"], None)
    assert nodes(folder.parent, "runs").json == {"runs": [], "next_cursor": None}
    lost = tallgrass("nodes", "runs", "--dir", str(folder), "--after", "gone")
    assert (lost.code, "there is no run 'gone'" in lost.err) == (1, True)
    told = tallgrass("nodes", "runs", env={"TALLGRASS_NODES_FOLDER": str(folder)})
    assert [line.split()[0] for line in told.out.splitlines()[1:]] == ["asks", "bad", "hit", "good"]
    some = tallgrass("nodes", "runs", "--dir", str(folder), "--limit", "3").out
    assert some.splitlines()[-1] == "More: --after hit"
    none = tallgrass("nodes", "runs", "--dir", str(folder), "--status", "damaged").out
    assert none.strip() == f"No run below {folder} is damaged."


def test_a_damaged_run_is_told_and_hides_no_other(folder: Path) -> None:
    """Its line says what is wrong; the others are as they were."""
    journal = folder / "wal" / "good" / ".journal"
    data = bytearray(journal.read_bytes())
    data[40] ^= 1
    journal.write_bytes(data)
    found = {each["run_id"]: each for each in nodes(folder, "runs").json["runs"]}
    assert found["good"]["status"] == "damaged"
    assert "synced" in found["good"]["problem"]
    assert found["bad"]["status"] == "failed"
    assert nodes(folder, "show", "good").error["code"] == "node_wal_damaged"


def test_a_run_shows_its_tasks(folder: Path) -> None:
    """In the order in which they were begun, each with its attempts and the hash of its result."""
    shown = nodes(folder, "show", "good").json
    assert shown["run"]["status"] == "succeeded"
    assert [(t["node_id"], t["status"], len(t["attempts"])) for t in shown["tasks"]] == [
        ("double", "succeeded", 1), ("double", "succeeded", 1), ("flaky", "succeeded", 2),
    ]  # fmt: skip
    # By hand: the canonical JSON of {"x": 2}.
    digest = hashlib.sha256(b'{"x":2}').hexdigest()
    assert shown["tasks"][0]["result_hash"] == digest
    told = tallgrass("nodes", "show", "good", "--dir", str(folder)).out
    assert digest[:16] in told
    assert told.count("double") == 2


def test_a_node_shows_attempts_effects_and_failure(folder: Path) -> None:
    """Of a failed node: what it tried, what it announced, why it will not be tried again."""
    shown = nodes(folder, "show", "bad", "put").json["tasks"]
    (task,) = shown
    assert [a["status"] for a in task["attempts"]] == ["failed"]
    assert [(e["effect"], e["key"], e["state"]) for e in task["effects"]] == [
        ("put", "object-7", "undone")
    ]
    assert [(c["effect"], c["try"], c["status"]) for c in task["compensations"]] == [
        ("put", 1, "undone")
    ]
    assert task["compensation"] == "done"
    assert task["failed"]["error"]["type"] == "builtins.ValueError"
    assert (task["rolled_back"], task["result_hash"]) == (True, None)
    told = tallgrass("nodes", "show", "bad", "put", "--dir", str(folder)).out
    assert "effect put, key object-7, state undone" in told
    assert "builtins.ValueError" in told


def test_a_task_shows_what_was_asked_for_last(folder: Path) -> None:
    """Of a hit of the cache its own call, also after an attempt of older code; then a newer one."""
    (hit,) = nodes(folder, "show", "hit").json["tasks"]
    assert (hit["status"], hit["pipeline"], hit["code_version"]) == ("cached", "hydrology", "1")
    with NodeRunner(folder, pipeline="floods") as runner:
        for version, run_id, status in (
            ("2", "other", "succeeded"),
            ("2", "hit", "cached"),
            ("3", "hit", "succeeded"),
            ("2", "hit", "cached"),
        ):
            runner.run(
                run_id=run_id, node_id="double", code_version=version, inputs={"x": 1},
                exec_fn=double,
            )  # fmt: skip
            (task,) = nodes(folder, "show", run_id).json["tasks"]
            told = [task[name] for name in ("status", "pipeline", "code_version")]
            assert told == [status, "floods", version]


def test_one_task_of_a_node_can_be_chosen(folder: Path) -> None:
    """`--task` leaves the others out; it needs its node."""
    both = nodes(folder, "show", "good", "double").json["tasks"]
    assert len(both) == 2
    second = nodes(folder, "show", "good", "double", "--task", both[1]["task_id"]).json["tasks"]
    assert second == [both[1]]
    assert both[0]["inputs_hash"] != both[1]["inputs_hash"]
    alone = nodes(folder, "show", "good", "--task", both[1]["task_id"])
    assert (alone.code, alone.error["code"]) == (2, "invalid_input")


def test_what_is_not_there_is_an_error_that_names_what_is(folder: Path) -> None:
    """An unknown run, and an unknown node of a known run."""
    unknown = nodes(folder, "show", "other")
    assert (unknown.code, unknown.error["code"]) == (1, "node_run_unknown")
    node = nodes(folder, "show", "good", "other")
    assert (node.code, node.error["code"]) == (2, "invalid_input")
    assert "double, flaky" in node.error["message"]


@pytest.mark.conformance("NR-5.9")
def test_all_that_is_derived_can_be_made_again_from_the_journals(folder: Path) -> None:
    """Files, cache and lineage are removed; a rebuild brings every byte back, a second nothing."""
    before = files_of(folder)
    assert len(cached(folder)) == 3
    shutil.rmtree(folder / "cache")
    shutil.rmtree(folder / "lineage")
    for path in list((folder / "wal").rglob("*.json")):
        path.unlink()
    told = nodes(folder, "rebuild", "--all").json
    counts = {
        each["run_id"]: (each["files"], each["results"], each["lineage"]) for each in told["runs"]
    }
    # pre, attempts and post of each task; of a hit only post; of a failed one no post, but failed
    # and compensation. Of each that ended: START, COMPLETE or FAIL, and PROV.
    assert counts == {
        "good": (9, 3, 9), "hit": (1, 0, 3), "bad": (4, 0, 3), "asks": (2, 0, 0),
    }  # fmt: skip
    assert files_of(folder) == before
    again = nodes(folder, "rebuild", "--all").json["runs"]
    assert all((each["files"], each["results"], each["lineage"]) == (0, 0, 0) for each in again)


def test_a_result_that_was_found_in_the_cache_is_put_back_too(folder: Path) -> None:
    """The run that made it may be gone: the one that used it has it in its own journal."""
    before = files_of(folder / "cache")
    shutil.rmtree(folder / "wal" / "good")
    shutil.rmtree(folder / "cache")
    assert nodes(folder, "rebuild", "hit").json["runs"][0]["results"] == 1
    (place,) = files_of(folder / "cache")
    assert files_of(folder / "cache")[place] == before[place]


def test_a_corrupt_result_is_replaced_and_a_wrong_file_too(folder: Path) -> None:
    """What does not verify counts as missing."""
    before = files_of(folder)
    cached(folder)[0].write_bytes(b"nonsense")
    (folder / "wal" / "good" / "flaky" / "post.json").write_text("{}")
    (told,) = nodes(folder, "rebuild", "good").json["runs"]
    assert (told["files"], told["results"]) == (1, 1)
    assert files_of(folder) == before


def test_a_damaged_run_stops_no_rebuild_of_others_and_can_be_salvaged(folder: Path) -> None:
    """The command fails and says which; with --salvage what stands before the damage is kept."""
    journal = folder / "wal" / "good" / ".journal"
    whole = journal.read_bytes()
    # The end of the first try of `flaky`: both results of `double` stand before it.
    place = whole.rindex(b"attempt_end", 0, whole.rindex(b"attempt_end"))
    journal.write_bytes(whole[:place] + b"?" + whole[place + 1 :])
    (folder / "wal" / "hit" / "double" / "post.json").unlink()
    done = nodes(folder, "rebuild", "--all")
    assert done.code == 1
    assert done.json["problems"]["good"]["code"] == "node_wal_damaged"
    assert {each["run_id"]: each["files"] for each in done.json["runs"]} == {
        "asks": 0, "bad": 0, "hit": 1,
    }  # fmt: skip
    alone = nodes(folder, "rebuild", "good")
    assert (alone.code, alone.error["code"]) == (1, "node_wal_damaged")
    (told,) = nodes(folder, "rebuild", "good", "--salvage").json["runs"]
    assert told["salvaged_bytes"] > 0
    kept = (folder / "wal" / "good" / ".journal.damaged").read_bytes()
    # Not a lone mark: checksums may hold any byte.
    assert kept.count(b"?ttempt_end") == 1
    tasks = nodes(folder, "show", "good").json["tasks"]
    assert [t["status"] for t in tasks] == ["succeeded", "succeeded", "unfinished"]


def test_rebuild_wants_one_run_or_all(folder: Path) -> None:
    """Neither and both are mistakes."""
    for args in ((), ("good", "--all")):
        assert nodes(folder, "rebuild", *args).error["code"] == "invalid_input"
    told = tallgrass("nodes", "rebuild", "--all", "--dir", str(folder)).out
    assert told == "4 runs looked at, 0 changed.\n"


def test_a_run_that_is_at_work_is_not_rebuilt(folder: Path) -> None:
    """Its lock is waited for a few seconds; then the command says who has it."""
    with NodeRunner(folder) as runner, runner.wal.run("good"):
        done = nodes(folder, "rebuild", "good")
    assert (done.code, done.error["code"]) == (1, "node_run_busy")


def test_the_cache_is_counted_and_pruned(folder: Path) -> None:
    """By age and by size: what was used longest ago goes first."""
    paths = cached(folder)
    sizes = [path.stat().st_size for path in paths]
    stats = nodes(folder, "cache", "stats").json
    assert stats == {"entries": 3, "bytes": sum(sizes), "bytes_max": 1 << 30}
    day = 86_400
    now = datetime.now(UTC).timestamp()
    for days, path in zip((10, 5, 1), paths, strict=True):
        os.utime(path, (now - days * day, now - days * day))
    assert nodes(folder, "cache", "prune").json["removed"] == 0
    assert nodes(folder, "cache", "prune", "--older-than", "7").json["removed"] == 1
    assert cached(folder) == paths[1:]
    pruned = nodes(folder, "cache", "prune", "--max-bytes", str(sizes[2]))
    assert pruned.json == {
        "removed": 1, "entries": 1, "bytes": sizes[2], "bytes_max": 1 << 30,
    }  # fmt: skip
    assert cached(folder) == paths[2:]


def test_the_cache_is_cleared_by_node_or_whole_if_one_says_yes(folder: Path) -> None:
    """Without --yes nothing goes; to look for a node's results makes none of them young."""
    assert nodes(folder, "cache", "clear").code == 2
    assert len(cached(folder)) == 3
    used = {path: path.stat().st_mtime_ns for path in cached(folder)}
    assert nodes(folder, "cache", "clear", "--node", "flaky", "--yes").json["removed"] == 1
    left = {path: path.stat().st_mtime_ns for path in cached(folder)}
    assert len(left) == 2
    assert left.items() <= used.items()
    told = tallgrass("nodes", "cache", "clear", "--yes", "--dir", str(folder)).out
    assert told == "Removed 2 results; 0 are left, 0 bytes.\n"
    # A run keeps what it recorded: nothing is computed again.
    with NodeRunner(folder, pipeline="hydrology") as runner:
        assert run_node(runner, "double", asking, 1, run_id="good") == {"x": 2}


def test_a_sensitive_value_is_shown_by_nothing(tmp_path: Path) -> None:
    """Neither a table nor JSON holds inputs or results."""
    with NodeRunner(tmp_path, run_id="r") as runner:
        secret = {"site": "38.95123,-95.25312"}
        runner.run(node_id="n", code_version="1", inputs=secret, exec_fn=dict, sensitive=True)
    for args in (("show", "r"), ("show", "r", "n"), ("runs",)):
        shown = tallgrass("nodes", *args, "--dir", str(tmp_path))
        for done in (shown, nodes(tmp_path, *args)):
            assert done.code == 0
            assert "38.95" not in done.out
    assert "38.95" not in json.dumps(nodes(tmp_path, "rebuild", "r").json)


def test_a_node_that_failed_stays_so_after_a_rebuild(folder: Path) -> None:
    """The journal is the truth: no file that is made again lets it run."""
    (folder / "wal" / "bad" / "put" / "failed.json").unlink()
    assert nodes(folder, "rebuild", "bad").json["runs"][0]["files"] == 1
    with NodeRunner(folder, pipeline="hydrology") as runner, pytest.raises(NodeFailed):
        run_node(runner, "put", put, 7, run_id="bad", compensate_fn=take_back)
