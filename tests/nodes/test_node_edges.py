"""Calls at the edges: errors, options, results and meters of all kinds, nodes inside of nodes."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import InvalidInput, NodeFailed, Refused, TransientError, ValidationError
from tallgrass.nodes import NodeHooks, NodeRunner, RetryPolicy, aeffect, current_node, effect
from tests.nodes.faulty_files import ScriptedFiles
from tests.nodes.running import Watched, failing_first

if TYPE_CHECKING:
    from tallgrass.telemetry.energy import EnergyUse


def run(runner: NodeRunner, node: Any, **options: Any) -> Any:
    """Call a node with a given version."""
    given = {"node_id": "fetch", "code_version": "v1", "inputs": {"x": 1}, **options}
    return runner.run(exec_fn=node, **given)


class SpeechlessError(Exception):
    """An error of somebody's own, of which nothing can be read."""

    def __str__(self) -> str:
        """Fail, as a message does that is made of what is closed by now."""
        raise RuntimeError("closed")

    @property
    def response(self) -> Any:
        """Fail too."""
        raise RuntimeError("closed")


def test_an_error_that_cannot_be_told_fails_the_node_like_any_other(watched: Watched) -> None:
    """It is raised as it is, its attempt ends, effects are undone, and the node stays failed."""
    undone: list[str] = []

    def node(_: Any) -> None:
        effect("put", key="a", do=lambda: None)
        raise SpeechlessError

    def call() -> None:
        run(watched.runner(), node, compensate_fn=lambda _, entry: undone.append(entry["key"]))

    with pytest.raises(SpeechlessError):
        call()
    with pytest.raises(NodeFailed, match="SpeechlessError"):
        call()
    assert undone == ["a"]
    assert [each["status"] for each in watched.view("run-1/fetch/attempts.json")] == ["failed"]
    assert watched.view("run-1/fetch/failed.json")["error"]["message"] == ""


def test_an_attempt_that_took_all_of_the_time_is_the_last(watched: Watched) -> None:
    """Its own error is raised at once: nothing is waited for, and no earlier process is blamed."""
    now = [datetime(2026, 11, 16, tzinfo=UTC)]

    def slow(_: Any) -> None:
        now[0] += timedelta(seconds=90)
        raise TimeoutError("no answer")

    runner = watched.runner(clock=lambda: now[0], retry=RetryPolicy(total_s_max=100))
    with pytest.raises(TimeoutError, match="no answer"):
        run(runner, slow)
    assert watched.slept == [2]
    assert watched.view("run-1/fetch/failed.json")["why"].startswith("182 s")


def test_a_result_that_no_entry_can_hold_fails_the_node(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For good, as any result that cannot be stored: its effects are undone, it runs once."""
    monkeypatch.setattr("tallgrass.nodes.journal.PAYLOAD_BYTES_MAX", 100_000)
    monkeypatch.setattr("tallgrass.nodes.machinery.STORED_BYTES_MAX", 90_000)
    undone: list[str] = []

    def node(_: Any) -> str:
        effect("put", key="a", do=lambda: None)
        return "x" * 100_000

    def call() -> None:
        run(watched.runner(), node, compensate_fn=lambda _, entry: undone.append(entry["key"]))

    with pytest.raises(InvalidInput, match="a value of 100002 bytes; at most 90000"):
        call()
    with pytest.raises(NodeFailed, match="a value of 100002 bytes"):
        call()
    assert undone == ["a"]
    kept_apart = run(watched.runner(), lambda _: "x" * 100_000, node_id="apart", sensitive=True)
    assert len(kept_apart) == 100_000


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("uses", "x"),
        ("uses", 7),
        ("reads", "gauges"),
        ("writes", ("gauges", 7)),
        ("code_version", 1.4),
        ("data_version", 2),
        ("dataset", 7),
        ("timeout_s", 0),
        ("timeout_s", -1),
        ("timeout_s", "5"),
        ("timeout_s", float("nan")),
        ("timeout_s", 1e12),
        ("retry", 3),
    ],
)
def test_an_option_of_another_form_is_refused(watched: Watched, option: str, given: Any) -> None:
    """Before anything runs: ``uses=("flow")`` would give the node nothing, without a word."""
    node = failing_first(0, Exception)
    with pytest.raises(InvalidInput, match=option) as refused:
        run(watched.runner(), node, **{option: given})
    assert refused.value.code == "node_declaration_invalid"
    assert node.calls == []  # type: ignore[attr-defined]


def test_ids_are_texts(watched: Watched) -> None:
    """A number is not taken for one: it would be another run for who writes it as a text."""
    with pytest.raises(InvalidInput, match="an id is a text, not 20261116"):
        watched.runner(run_id=20261116)
    for name in ("run_id", "node_id", "task_id"):
        with pytest.raises(InvalidInput, match="an id is a text, not 7"):
            run(watched.runner(), failing_first(0, Exception), **{name: 7})
    with pytest.raises(InvalidInput, match="retry"):
        watched.runner(retry=3)


@pytest.mark.parametrize("name", ["run_id", "task_id"])
def test_an_empty_id_is_not_taken_for_one_left_out(watched: Watched, name: str) -> None:
    """A variable that was never set does not lead to the results of another run."""
    node = failing_first(0, Exception)
    with pytest.raises(InvalidInput, match="an id of 0 characters"):
        run(watched.runner(), node, **{name: ""})
    assert node.calls == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("part", ["begin", "end"])
def test_a_meter_that_fails_does_not_fail_the_node(watched: Watched, part: str) -> None:
    """The attempt has no figures, and who keeps the log is told."""

    class Meter:
        def begin(self) -> None:
            if part == "begin":
                raise OSError("no counter")

        def end(self, _begun: Any) -> EnergyUse:
            raise OSError("no counter")

    runner = watched.runner(hooks=NodeHooks(energy=Meter()))
    assert run(runner, failing_first(1, lambda: TransientError("later"))) == {"calls": 2}
    attempts = watched.view("run-1/fetch/attempts.json")
    assert [(each["status"], list(each["measures"])) for each in attempts] == [
        ("failed", ["latency_ms"]),
        ("succeeded", ["latency_ms"]),
    ]
    assert {(name, fields["hook"]) for name, fields in watched.recorder.events} == {
        ("node_hook_failed", "energy")
    }


@pytest.mark.parametrize("options", [{}, {"has_effects": True}], ids=["cached", "effects"])
def test_a_node_that_calls_itself_does_not_wait_for_itself(
    watched: Watched, options: dict[str, Any]
) -> None:
    """With the same inputs, through another too, it is refused at once; with others it goes on."""
    runner = watched.runner()

    @runner.node(code_version="v1", **options)
    def down(number: int) -> Any:
        return 0 if number == 0 else 1 + between(number)

    @runner.node(code_version="v1", **options)
    def between(number: int) -> Any:
        return down(number if number == 7 else number - 1)

    assert down(3) == 3
    with pytest.raises(InvalidInput, match="down calls itself with the same inputs"):
        down(7)
    assert watched.slept == []


def test_what_a_node_left_behind_may_call_it_again(watched: Watched) -> None:
    """A task that was begun inside of a node and outlives it is inside of nothing."""
    runner = watched.runner(run_id=None)
    tasks: list[asyncio.Task[Any]] = []

    async def later(ended: asyncio.Event) -> Any:
        await ended.wait()
        return await runner.arun(
            node_id="n", run_id="two", inputs=1, exec_fn=lambda _: "again", code_version="v1"
        )

    async def run_it() -> tuple[Any, Any]:
        ended = asyncio.Event()

        async def node(_: Any) -> str:
            tasks.append(asyncio.create_task(later(ended)))
            return "first"

        first = await runner.arun(
            node_id="n", run_id="one", inputs=1, exec_fn=node, code_version="v1", cached=False
        )
        ended.set()
        return first, await tasks[0]

    assert asyncio.run(run_it()) == ("first", "again")


@pytest.mark.conformance("NR-5.7", "NR-7.2")
def test_a_task_that_outlives_its_node_makes_no_effect(watched: Watched) -> None:
    """It had announced one when the node failed: that counts as undone, and is not made."""
    made: list[str] = []
    entered, failing = threading.Event(), threading.Event()
    tasks: list[asyncio.Task[Any]] = []

    def before(_number: int, name: str) -> None:
        if name == "sync_data" and entered.is_set():
            assert failing.wait(60)

    async def node(_: Any) -> None:
        entered.set()
        put = aeffect("put", key="a", do=lambda: made.append("a"))
        tasks.append(asyncio.create_task(put))
        while not current_node().log.state.effects:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        failing.set()
        raise ValidationError("another went wrong")

    async def run_it() -> list[Any]:
        with pytest.raises(ValidationError):
            await watched.runner(files=ScriptedFiles(before)).arun(
                node_id="publish",
                code_version="v1",
                inputs=1,
                exec_fn=node,
                compensate_fn=lambda _state, entry: made.append(f"undone {entry['key']}"),
            )
        return await asyncio.gather(*tasks, return_exceptions=True)

    (ended,) = asyncio.run(run_it())
    assert isinstance(ended, Refused)
    assert made == ["undone a"]
