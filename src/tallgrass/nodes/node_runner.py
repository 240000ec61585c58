"""`NodeRunner`: the one gate through which nodes are executed.

    runner = NodeRunner("work", pipeline="hydrology", run_id="2026-11-16")

    @runner.node(uses=("flow",))
    def smooth(state): ...

Everything of it lies below one folder: ``wal/`` (the truth), ``cache/`` (may be removed at any
time), ``locks/``, and ``sensitive/`` (values that are kept apart from log and cache).
"""

import asyncio
import functools
import inspect
import platform
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields, replace
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from tallgrass.clock import Clock, system_clock
from tallgrass.errors import InvalidInput, Refused
from tallgrass.nodes.cache_store import CacheStore, FolderCache, FolderLocks
from tallgrass.nodes.code_version import derive_code_version
from tallgrass.nodes.entries import Kind, TaskId
from tallgrass.nodes.execution import Execution
from tallgrass.nodes.files import Files
from tallgrass.nodes.gatekeeper import GovernanceGate
from tallgrass.nodes.identity import (
    NodeIdentity,
    data_version_of,
    declared_inputs,
    file_name_of,
)
from tallgrass.nodes.machinery import Machinery
from tallgrass.nodes.node_report import NodeReport
from tallgrass.nodes.payloads import Payloads
from tallgrass.nodes.protocols import (
    ApprovalCheck,
    CompensateFn,
    Gatekeeper,
    KeyLocks,
    NodeCall,
    NodeDeclaration,
    NodeHooks,
)
from tallgrass.nodes.retry_policy import RetryPolicy
from tallgrass.nodes.signatures import NodeSignature
from tallgrass.nodes.steps import drive, drive_async
from tallgrass.nodes.values import Values, hash_of_identity
from tallgrass.nodes.wal_store import WalStore
from tallgrass.telemetry.recorder import NOBODY, Recorder

Function = TypeVar("Function", bound=Callable[..., Any])
#: Says which run and which task a call belongs to, where nobody names them; None: it knows nothing.
Whereabouts = Callable[[], tuple[str | None, str | None]]
#: A wrapped node carries its declaration under this name.
DECLARATION_NAME: Final = "__tallgrass_node__"

_DECLARED: Final = frozenset(each.name for each in fields(NodeDeclaration))
#: Below this label nothing need be kept apart.
_OPEN: Final = "public"


def nowhere() -> tuple[None, None]:
    """Know neither run nor task."""
    return None, None


class NodeRunner:
    """Runs functions as nodes; one for a pipeline, shared by its threads and tasks."""

    def __init__(  # noqa: PLR0913 - everything is injected, and nothing but the folder is needed
        self,
        root: str | Path,
        *,
        pipeline: str = "default",
        env: str = "dev",
        run_id: str | None = None,
        strict: bool = False,
        verify: bool = False,
        retry: RetryPolicy | None = None,
        cache: CacheStore | None = None,
        locks: KeyLocks | None = None,
        gate: Gatekeeper | None = None,
        hooks: NodeHooks | None = None,
        values: Values | None = None,
        approvals: ApprovalCheck | None = None,
        whereabouts: Whereabouts = nowhere,
        recorder: Recorder = NOBODY,
        clock: Clock = system_clock,
        sleep: Callable[[float], None] = time.sleep,
        async_sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[float, float], float] | None = None,
        files: Files | None = None,
        lock_timeout_s: float = 300.0,
    ) -> None:
        folder = Path(root)
        if run_id is not None:
            file_name_of(run_id)
        self.pipeline = pipeline
        self.env = env
        self.run_id = run_id
        self.retry = retry or RetryPolicy()
        self.wal = WalStore(
            folder / "wal", files=files, clock=clock, sleep=sleep, lock_timeout_s=lock_timeout_s
        )
        self.cache = cache or FolderCache(folder / "cache", files=files)
        self._verify = verify
        self._approvals = approvals
        self._whereabouts = whereabouts
        self._sleep = sleep
        self._async_sleep = async_sleep
        self._machinery = Machinery(
            wal=self.wal,
            cache=self.cache,
            locks=locks or FolderLocks(folder / "locks", sleep=sleep),
            payloads=Payloads(folder / "sensitive", files=files),
            values=values or Values(),
            gate=gate or GovernanceGate(),
            hooks=hooks or NodeHooks(),
            report=NodeReport(recorder),
            clock=clock,
            monotonic=time.monotonic,
            uniform=uniform or random.Random().uniform,  # noqa: S311 - jitter is no secret
            environment=_environment(),
            strict=strict,
            lock_timeout_s=lock_timeout_s,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def strict(self) -> bool:
        """Whether versions and procedures must be declared, and inputs may not be changed."""
        return self._machinery.strict

    @property
    def hooks(self) -> NodeHooks:
        """What others bring."""
        return self._machinery.hooks

    def run(  # noqa: PLR0913 - the specification's signature, and what it leaves open
        self,
        *,
        node_id: str,
        inputs: Any,
        exec_fn: Callable[[Any], Any],
        code_version: str | None = None,
        compensate_fn: CompensateFn | None = None,
        run_id: str | None = None,
        task_id: str | None = None,
        retry: RetryPolicy | None = None,
        approval: str | None = None,
        **declared: Any,
    ) -> Any:
        """Execute a node and return its result; `declared` are fields of `NodeDeclaration`."""
        declaration = _declaration(
            node_id, code_version=code_version, compensate_fn=compensate_fn, **declared
        )
        execution = self._execution(
            declaration, inputs, exec_fn, exec_fn, (run_id, task_id), retry, approval
        )
        return drive(execution.steps(), self._sleep)

    async def arun(  # noqa: PLR0913 - as `run`
        self,
        *,
        node_id: str,
        inputs: Any,
        exec_fn: Callable[[Any], Any],
        code_version: str | None = None,
        compensate_fn: CompensateFn | None = None,
        run_id: str | None = None,
        task_id: str | None = None,
        retry: RetryPolicy | None = None,
        approval: str | None = None,
        **declared: Any,
    ) -> Any:
        """Execute a node in an event loop; its function may be async or plain."""
        declaration = _declaration(
            node_id, code_version=code_version, compensate_fn=compensate_fn, **declared
        )
        execution = self._execution(
            declaration, inputs, exec_fn, exec_fn, (run_id, task_id), retry, approval
        )
        return await drive_async(execution.steps(), self._async_sleep)

    def node(
        self, function: Function | None = None, *, retry: RetryPolicy | None = None, **declared: Any
    ) -> Any:
        """Decorate a function as a node: ``@runner.node`` or ``@runner.node(uses=("x",))``."""
        if function is not None:
            return self.wrap(function, retry=retry, **declared)
        return lambda each: self.wrap(each, retry=retry, **declared)

    def wrap(
        self, function: Function, *, retry: RetryPolicy | None = None, **declared: Any
    ) -> Function:
        """Return the function as a node: same signature and annotations, async if it is.

        Its one argument is the state; of several, all but LangGraph's own (config, runtime, store,
        writer, previous) are inputs by their names.
        """
        node_id = declared.pop("node_id", None) or getattr(function, "__name__", "")
        declaration = _declaration(node_id, **declared)
        signature = NodeSignature(function)
        self._require_declared(declaration)

        def execution(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Execution:
            inputs, call = signature.bind(arguments, keywords)
            return self._execution(declaration, inputs, call, function, (None, None), retry, None)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapped_async(*arguments: Any, **keywords: Any) -> Any:
                return await drive_async(execution(arguments, keywords).steps(), self._async_sleep)

            setattr(wrapped_async, DECLARATION_NAME, declaration)
            return cast("Function", wrapped_async)

        @functools.wraps(function)
        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            return drive(execution(arguments, keywords).steps(), self._sleep)

        setattr(wrapped, DECLARATION_NAME, declaration)
        return cast("Function", wrapped)

    def clear(self, *, run_id: str, node_id: str, task_id: str | None = None, approval: str) -> int:
        """Allow a node that failed for good to run again; return how many of its tasks it was.

        The approval is checked by whoever was given to the runner for it; without one nobody may.
        """
        if self._approvals is None:
            raise Refused("this runner was given nobody who could check an approval")
        cleared = 0
        with self.wal.run(run_id) as run:
            for task in list(run.state.tasks.values()):
                named = task.id.node_id == node_id and task_id in {None, task.id.task_id}
                if named and task.failed is not None:
                    self._approvals.require(approval, run_id, task.id)
                    run.commit(run.append(Kind.CLEARED, task.id, {"approval": approval}))
                    run.rebuild_views()
                    cleared += 1
        return cleared

    def close(self) -> None:
        """Close what is open; a node that is at work goes on."""
        self.wal.close()

    def _execution(
        self,
        declaration: NodeDeclaration,
        inputs: Any,
        function: Callable[[Any], Any],
        code: Callable[..., Any],
        place: tuple[str | None, str | None],
        retry: RetryPolicy | None,
        approval: str | None,
    ) -> Execution:
        """Take a call as far as it goes without any I/O of its own: gate, then identity."""
        machinery, policy = self._machinery, retry or self.retry
        self._require_declared(declaration)
        admission = machinery.gate.admit(declaration)
        used = declared_inputs(inputs, declaration.uses)
        counted = machinery.values.identity(used)
        identity = self._identity(declaration, hash_of_identity(counted), code, policy)
        run_id, task_id = self._whereabouts_of(place)
        call = NodeCall(
            pipeline=self.pipeline,
            env=self.env,
            run_id=run_id,
            task=TaskId(
                node_id=declaration.node_id, task_id=task_id or f"t-{identity.inputs_hash[:24]}"
            ),
            declaration=declaration,
            identity=identity,
            admission=admission,
            sensitive=declaration.sensitive or admission.care_label != _OPEN,
            approval=approval,
        )
        if machinery.hooks.budget is not None:
            machinery.hooks.budget.admit(call)
        return Execution(
            machinery=machinery,
            call=call,
            inputs=used,
            inputs_identity=counted,
            function=function,
            retry=policy,
            verify=self._verify,
        )

    def _identity(
        self,
        declaration: NodeDeclaration,
        inputs_hash: str,
        code: Callable[..., Any],
        policy: RetryPolicy,
    ) -> NodeIdentity:
        machinery = self._machinery
        validators = [each.fingerprint for each in machinery.hooks.validators]
        fingerprints = {
            "retry": policy.fingerprint,
            "validation": hash_of_identity(validators),
            "governance": machinery.gate.fingerprint(declaration),
        }
        version = declaration.code_version
        if version is None:
            version = self._derived(declaration, code)
        return NodeIdentity(
            node_id=declaration.node_id,
            code_version=version,
            inputs_hash=inputs_hash,
            data_version=data_version_of(declaration.data_version, fingerprints),
        )

    def _derived(self, declaration: NodeDeclaration, code: Callable[..., Any]) -> str | None:
        try:
            return derive_code_version(code, self._machinery.values)
        except InvalidInput as error:
            self._machinery.report.uncached(self.pipeline, declaration.node_id, str(error))
            return None

    def _require_declared(self, declaration: NodeDeclaration) -> None:
        if not self.strict:
            return
        if declaration.code_version is None:
            raise InvalidInput(
                f"{declaration.node_id} has no code_version, and this runner is strict",
                code="node_code_version_missing",
            )
        governed = declaration.compensate_fn is not None or declaration.procedure is not None
        if declaration.has_effects and not governed:
            raise InvalidInput(
                f"{declaration.node_id} has effects, and neither compensate_fn nor procedure",
                code="node_declaration_invalid",
            )

    def _whereabouts_of(self, place: tuple[str | None, str | None]) -> tuple[str, str | None]:
        found_run, found_task = self._whereabouts()
        run_id = place[0] or self.run_id or found_run
        if run_id is None:
            raise InvalidInput(
                "no run_id: give one to the runner or the call, or a thread_id to LangGraph",
                code="node_declaration_invalid",
            )
        return run_id, place[1] or found_task


def _declaration(node_id: str, **declared: Any) -> NodeDeclaration:
    unknown = sorted(set(declared) - _DECLARED)
    if unknown:
        raise InvalidInput(
            f"a node has no option {', '.join(unknown)}", code="node_declaration_invalid"
        )
    file_name_of(node_id)
    declaration = NodeDeclaration(node_id=node_id, **declared)
    if declaration.compensate_fn is not None:
        declaration = replace(declaration, has_effects=True)
    return declaration


def _environment() -> dict[str, str]:
    """Return what of the surroundings is told; nothing that names a host, a user or a secret."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
        "tallgrass": metadata.version("tallgrass"),
    }
