"""A node's execution as steps, and the two ways to take them: in a thread, or in an event loop.

The order of steps is written once, as a generator that yields what takes time: the node's function,
a wait, and work that blocks on the disk. A driver does it and sends the result, or throws the
error, back in.
"""

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from tallgrass.errors import InvalidInput, RunBusy
from tallgrass.nodes.forks import begin_anew_after_forks
from tallgrass.nodes.protocols import _ACTIVE, ActiveNode, CpuTime

Result = TypeVar("Result")

_PAUSE_S = 0.001
_PAUSE_S_MAX = 0.05


class _DiskThreads:
    """Threads of their own: nodes that fill the loop's threads must not keep others from the disk.

    A fork copies none of them.
    """

    def __init__(self) -> None:
        self.begin_anew()
        begin_anew_after_forks(self)

    def begin_anew(self) -> None:
        """Have threads of this process; they are made when they are needed."""
        self.pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="tallgrass-nodes")


_AT_THE_DISK = _DiskThreads()


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Call the node's function."""

    function: Callable[[Any], Any]
    inputs: Any
    active: ActiveNode
    timeout_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Let time pass."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Do something that waits for the disk, or for others."""

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Let others go on for a moment, before asking again for what they hold."""

    seconds: float


Step = Execute | Wait | Block | Pause
Steps = Generator[Step, Any, Result]


def patiently(
    ask: Callable[[], Any], timeout_s: float, monotonic: Callable[[], float]
) -> Steps[Any]:
    """Ask until nobody else holds it; no thread is kept busy by the waiting."""
    give_up, pause_s = monotonic() + timeout_s, _PAUSE_S
    while True:
        try:
            return (yield Block(work=ask))
        except RunBusy as busy:
            if monotonic() >= give_up:
                raise RunBusy(f"{busy}; it was waited for {timeout_s:g} s") from None
        yield Pause(seconds=pause_s)
        pause_s = min(pause_s * 2, _PAUSE_S_MAX)


def drive(steps: Steps[Result], sleep: Callable[[float], None] = time.sleep) -> Result:
    """Take all steps in this thread."""
    done: Any = None
    error: BaseException | None = None
    while True:
        try:
            # No functions that send or throw: those took 2 µs a step, and a node has ten.
            step = steps.send(done) if error is None else steps.throw(error)
        except StopIteration as end:
            result: Result = end.value
            return result
        done = error = None
        try:
            done = step.work() if isinstance(step, Block) else _do(step, sleep)
        except BaseException as raised:  # noqa: BLE001 - the generator decides
            error = raised


async def drive_async(
    steps: Steps[Result], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Result:
    """Take all steps in an event loop; what blocks is done in a thread, so that others go on.

    A cancellation never leaves such a thread behind: its work is waited for and told to the
    generator, which then learns of the cancellation at its next step of another kind.
    """
    send: Callable[[], Step] = lambda: next(steps)  # noqa: E731 - it changes with every step
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            step = send()
        except StopIteration as end:
            if cancelled is not None:
                raise cancelled from None
            result: Result = end.value
            return result
        try:
            if isinstance(step, Block):
                done, error, interrupted = await _block(step)
                cancelled = cancelled or interrupted
                if error is not None:
                    raise error  # noqa: TRY301 - into the generator
            elif cancelled is not None:
                raise cancelled  # noqa: TRY301 - into the generator
            else:
                done = await _do_async(step, sleep)
        except BaseException as raised:  # noqa: BLE001 - the generator decides
            send = _throwing(steps, raised)
        else:
            send = _sending(steps, done)


async def _block(
    step: Block,
) -> tuple[Any, BaseException | None, asyncio.CancelledError | None]:
    """Return what came of it, or its error; and that it was cancelled meanwhile, if it was."""
    work = asyncio.get_running_loop().run_in_executor(_AT_THE_DISK.pool, _tried, step.work)
    cancelled = None
    while not work.done():
        try:
            await asyncio.shield(asyncio.wait([work]))
        except asyncio.CancelledError as error:
            cancelled = error
    return *work.result(), cancelled


def _tried(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Return an error as a value: no future can carry a `StopIteration`."""
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
        return None, error


def _throwing(steps: Steps[Result], error: BaseException) -> Callable[[], Step]:
    return lambda: steps.throw(error)


def _sending(steps: Steps[Result], done: Any) -> Callable[[], Step]:
    return lambda: steps.send(done)


def _do(step: Execute | Wait | Pause, sleep: Callable[[float], None]) -> Any:
    if isinstance(step, Wait):
        return sleep(step.seconds)
    if isinstance(step, Pause):
        return time.sleep(step.seconds)
    if step.timeout_s is not None:
        return _call_within(step, step.timeout_s)
    return _call(step)


async def _do_async(step: Execute | Wait | Pause, sleep: Callable[[float], Awaitable[None]]) -> Any:
    if isinstance(step, Wait):
        return await sleep(step.seconds)
    if isinstance(step, Pause):
        return await asyncio.sleep(step.seconds)
    limit = asyncio.timeout(step.timeout_s)
    try:
        async with limit:
            return await _await(step)
    except (TimeoutError, asyncio.CancelledError) as given_up:
        # A function in a thread runs on, and can write nothing more.
        step.active.log.fence("it was given up")
        if limit.expired() and isinstance(given_up, TimeoutError):
            raise _took_too_long(step) from given_up
        raise


async def _await(step: Execute) -> Any:
    token = _ACTIVE.set(step.active)
    try:
        if not inspect.iscoroutinefunction(step.function):
            result = await asyncio.to_thread(_timed, step)
        else:
            result = step.function(step.inputs)
        if not inspect.isawaitable(result):
            return result
        return await (result if step.active.cpu is None else Timed(result, step.active.cpu))
    finally:
        _ACTIVE.reset(token)


def _call(step: Execute) -> Any:
    token = _ACTIVE.set(step.active)
    try:
        result = _timed(step)
    finally:
        _ACTIVE.reset(token)
    if inspect.iscoroutine(result):
        result.close()
        raise InvalidInput(
            "the node's function is async: use `arun`, or await the wrapped node",
            code="node_declaration_invalid",
        )
    return result


def _timed(step: Execute) -> Any:
    """Call the function; its thread's CPU time is noted where somebody asks for it."""
    cpu = step.active.cpu
    begun = None if cpu is None else time.thread_time()
    try:
        return step.function(step.inputs)
    except StopIteration as stop:
        # As Python does in a coroutine: neither a future nor a generator can carry it.
        raise RuntimeError("the node's function raised StopIteration") from stop
    finally:
        if cpu is not None and begun is not None:
            cpu.seconds += time.thread_time() - begun


class Timed:
    """An awaitable whose own CPU time is noted, not that of others which share its event loop."""

    def __init__(self, awaited: Awaitable[Any], cpu: CpuTime) -> None:
        self._awaited = awaited
        self._cpu = cpu

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._awaited.__await__()
        go_on: Callable[[], Any] = partial(next, steps)
        while True:
            begun = time.thread_time()
            try:
                waits_for = go_on()
            except StopIteration as end:
                return end.value
            finally:
                self._cpu.seconds += time.thread_time() - begun
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001 - it is the awaited one's
                go_on = partial(_thrown, steps, error)
            else:
                go_on = partial(_sent, steps, sent)


def _sent(steps: Generator[Any, Any, Any], value: Any) -> Any:
    # An iterator that is no generator, a future's for one, takes no values.
    return next(steps) if value is None else steps.send(value)


def _thrown(steps: Generator[Any, Any, Any], error: BaseException) -> Any:
    if hasattr(steps, "throw"):
        return steps.throw(error)
    raise error


def _call_within(step: Execute, timeout_s: float) -> Any:
    """Call in a thread of its own and give up in time.

    No thread can be ended from outside: it runs on, but can write nothing more.
    """
    answer: list[tuple[bool, Any]] = []
    done = threading.Event()

    def work() -> None:
        try:
            answer.append((True, _call(step)))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            answer.append((False, error))
        done.set()

    context = contextvars.copy_context()
    threading.Thread(
        target=context.run, args=(work,), name=f"node-{step.active.call.node_id}", daemon=True
    ).start()
    if not done.wait(timeout_s):
        step.active.log.fence("it took too long")
        if step.active.cpu is not None:
            # No thread can be asked what it took: at most all of the time.
            step.active.cpu.seconds += timeout_s
        raise _took_too_long(step)
    succeeded, value = answer[0]
    if not succeeded:
        raise value
    return value


def _took_too_long(step: Execute) -> TimeoutError:
    return TimeoutError(f"the node took longer than {step.timeout_s:g} s")
