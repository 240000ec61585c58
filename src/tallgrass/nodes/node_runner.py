"""`NodeRunner`: the one gate through which nodes are executed.

    runner = NodeRunner("work", pipeline="hydrology", run_id="2026-11-16")

    @runner.node(uses=("flow",))
    def smooth(state): ...

Everything of it lies below one folder: ``wal/`` (the truth), ``cache/`` (may be removed at any
time), ``locks/``, and ``sensitive/`` (values that are kept apart from log and cache).
"""

import asyncio
import copy
import functools
import inspect
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from tallgrass.clock import Clock, system_clock
from tallgrass.errors import InvalidInput, Refused
from tallgrass.nodes.cache_store import CacheStore, FolderCache
from tallgrass.nodes.code_version import derive_code_version
from tallgrass.nodes.compensation import compensating
from tallgrass.nodes.declarations import (
    Asked,
    Whereabouts,
    WrappedNode,
    declaration_of,
    environment,
    marked,
    nowhere,
    require_complete,
    require_plain,
    require_retry,
)
from tallgrass.nodes.entries import Kind, TaskId
from tallgrass.nodes.execution import Execution
from tallgrass.nodes.files import Files
from tallgrass.nodes.gatekeeper import GovernanceGate
from tallgrass.nodes.identity import NodeIdentity, data_version_of, declared_inputs, file_name_of
from tallgrass.nodes.key_locks import FolderLocks
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
    require_no_loop,
)
from tallgrass.nodes.retry_policy import RetryPolicy
from tallgrass.nodes.signatures import NodeSignature
from tallgrass.nodes.steps import drive, drive_async
from tallgrass.nodes.values import Extension, Values, hash_of_identity
from tallgrass.nodes.wal_store import WalStore
from tallgrass.telemetry.recorder import NOBODY, Recorder

Function = TypeVar("Function", bound=Callable[..., Any])
Work = Callable[[Any], Any]

#: Below this label nothing need be kept apart.
_OPEN: Final = "public"


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
        approval: str | None = None,
        whereabouts: Whereabouts = nowhere,
        recorder: Recorder = NOBODY,
        clock: Clock = system_clock,
        sleep: Callable[[float], None] = time.sleep,
        async_sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[float, float], float] | None = None,
        files: Files | None = None,
        lock_timeout_s: float = 300.0,
        also_close: Callable[[], object] = lambda: None,
    ) -> None:
        folder = Path(root)
        if run_id is not None:
            file_name_of(run_id)
        require_retry(retry)
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
        #: For nodes that are called without one, as wrapped ones are.
        self._approval = approval
        self.whereabouts = whereabouts
        self._sleep = sleep
        self._async_sleep = async_sleep
        self._also_close = also_close
        self._machinery = Machinery(
            wal=self.wal,
            cache=self.cache,
            locks=locks or FolderLocks(folder / "locks", sleep=sleep),
            payloads=Payloads(folder / "sensitive", files=files),
            values=values or Values(),
            gate=gate or GovernanceGate(),
            hooks=compensating(hooks or NodeHooks(), recorder, clock, sleep),
            report=NodeReport(recorder),
            clock=clock,
            monotonic=time.monotonic,
            uniform=uniform or random.Random().uniform,  # noqa: S311 - jitter is no secret
            environment=environment(),
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
        declaration = declaration_of(
            node_id, code_version=code_version, compensate_fn=compensate_fn, **declared
        )
        asked = Asked(run_id=run_id, task_id=task_id, retry=retry, approval=approval)
        return self.call(declaration, inputs, exec_fn, code=exec_fn, asked=asked)

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
        declaration = declaration_of(
            node_id, code_version=code_version, compensate_fn=compensate_fn, **declared
        )
        asked = Asked(run_id=run_id, task_id=task_id, retry=retry, approval=approval)
        return await self.acall(declaration, inputs, exec_fn, code=exec_fn, asked=asked)

    def call(
        self, declaration: NodeDeclaration, inputs: Any, function: Work, *, code: Any, asked: Asked
    ) -> Any:
        """Execute a declared node; its version is derived from `code` where none is given."""
        execution = self._execution(declaration, inputs, require_plain(function), code, asked)
        return drive(execution.steps(), self._sleep)

    async def acall(
        self, declaration: NodeDeclaration, inputs: Any, function: Work, *, code: Any, asked: Asked
    ) -> Any:
        """Execute a declared node in an event loop."""
        execution = self._execution(declaration, inputs, function, code, asked)
        return await drive_async(execution.steps(), self._async_sleep)

    def adapted(
        self, whereabouts: Whereabouts, extensions: Callable[[Values], Sequence[Extension]]
    ) -> "NodeRunner":
        """Return the runner for a framework's nodes; log, cache, locks and hooks stay the same."""
        made, values = copy.copy(self), self._machinery.values
        values = values.extended(extensions(values))
        vars(made).update(
            _machinery=replace(self._machinery, values=values),
            whereabouts=whereabouts if self.whereabouts is nowhere else self.whereabouts,
        )
        return made

    def hash_of(self, value: Any) -> str:
        """Return a value's hash, as inputs are hashed; what has no stable form is refused."""
        return self._machinery.values.hash_of(value)

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
        declaration = declaration_of(node_id, **declared)
        signature = NodeSignature(function)
        self.require_declared(declaration)
        said = WrappedNode(runner=self, declaration=declaration, retry=retry)

        def execution(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Execution:
            inputs, call = signature.bind(arguments, keywords)
            return self._execution(declaration, inputs, call, function, Asked(retry=retry))

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapped_async(*arguments: Any, **keywords: Any) -> Any:
                return await drive_async(execution(arguments, keywords).steps(), self._async_sleep)

            return cast("Function", marked(wrapped_async, said))

        @functools.wraps(function)
        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            return drive(execution(arguments, keywords).steps(), self._sleep)

        return cast("Function", marked(wrapped, said))

    def clear(self, *, run_id: str, node_id: str, task_id: str | None = None, approval: str) -> int:
        """Allow a node that failed for good to run again; return how many of its tasks it was.

        The approval is checked by whoever was given to the runner for it; without one nobody may.
        """
        if self._approvals is None:
            raise Refused("this runner was given nobody who could check an approval")
        cleared = 0
        # Asking for a run that nobody knows must not make it.
        self.wal.read(run_id)
        with self.wal.run(run_id) as run:
            for task in list(run.state.tasks.values()):
                named = task.id.node_id == node_id and task_id in {None, task.id.task_id}
                if named and task.failed is not None:
                    self._approvals.allow_clearing(approval, run_id, task.id)
                    run.commit(run.append(Kind.CLEARED, task.id, {"approval": approval}))
                    run.rebuild_views()
                    cleared += 1
        return cleared

    def close(self) -> None:
        """Close what is open; a node that is at work goes on."""
        self.wal.close()
        self._also_close()

    def _execution(
        self, declaration: NodeDeclaration, inputs: Any, function: Work, code: Any, asked: Asked
    ) -> Execution:
        """Take a call as far as it goes without any I/O of its own: gate, then identity."""
        machinery, policy = self._machinery, asked.retry or self.retry
        self.require_declared(declaration)
        admission = machinery.gate.admit(declaration)
        used = declared_inputs(inputs, declaration.uses)
        counted = machinery.values.identity(used)
        given_hash = hash_of_identity(counted)
        declaration, inputs_hash = self._with_beside(declaration, given_hash, asked.beside)
        version = declaration.code_version
        if version is None:
            version = self._derived(declaration, code, used)
        identity = self._identity(declaration, inputs_hash, version, policy)
        run_id, task_id = self._whereabouts_of(asked, given_hash)
        call = NodeCall(
            pipeline=self.pipeline,
            env=self.env,
            run_id=run_id,
            task=TaskId(node_id=declaration.node_id, task_id=task_id),
            declaration=declaration,
            identity=identity,
            admission=admission,
            sensitive=declaration.sensitive or admission.care_label != _OPEN,
            approval=asked.approval or self._approval,
        )
        require_no_loop(call)
        return Execution(
            machinery=machinery,
            call=call,
            # As it was when it was hashed, whatever the caller does to it meanwhile.
            inputs=copy.deepcopy(used),
            inputs_identity=counted,
            function=function,
            retry=policy,
            verify=self._verify and not declaration.has_effects,
        )

    def _with_beside(
        self, declaration: NodeDeclaration, inputs_hash: str, beside: Mapping[str, Any] | None
    ) -> tuple[NodeDeclaration, str]:
        """Count what the result depends on beside the inputs; no cache for what cannot count."""
        if not beside:
            return declaration, inputs_hash
        counted: list[Any] = [inputs_hash]
        for name, part in sorted(beside.items()):
            try:
                counted.append([name, self._machinery.values.identity(part)])
            except InvalidInput as error:
                self._machinery.report.uncached(self.pipeline, declaration.node_id, str(error))
                declaration = replace(declaration, cached=False)
        return declaration, hash_of_identity(counted)

    def _identity(
        self,
        declaration: NodeDeclaration,
        inputs_hash: str,
        version: str | None,
        policy: RetryPolicy,
    ) -> NodeIdentity:
        machinery = self._machinery
        validators = [each.fingerprint for each in machinery.hooks.validators]
        fingerprints = {
            # Pipelines share a folder, and each has a node that loads something.
            "pipeline": self.pipeline,
            "retry": policy.fingerprint,
            "validation": hash_of_identity(validators),
            "governance": machinery.gate.fingerprint(declaration),
        }
        return NodeIdentity(
            node_id=declaration.node_id,
            code_version=version,
            inputs_hash=inputs_hash,
            data_version=data_version_of(declaration.data_version, fingerprints),
        )

    def _derived(self, declaration: NodeDeclaration, code: Any, inputs: Any) -> str | None:
        try:
            return derive_code_version(code, self._machinery.values, inputs)
        except InvalidInput as error:
            self._machinery.report.uncached(self.pipeline, declaration.node_id, str(error))
            return None

    def require_declared(self, declaration: NodeDeclaration) -> None:
        """Refuse what a strict runner wants to know and the node does not say."""
        if self.strict:
            require_complete(declaration)

    def _whereabouts_of(self, asked: Asked, given_hash: str) -> tuple[str, str]:
        """Return run and task; tasks at one place that are given different inputs are different."""
        found_run, place = asked.found or self.whereabouts()
        named = [each for each in (asked.run_id, self.run_id, found_run) if each is not None]
        if not named:
            raise InvalidInput(
                "no run_id: give one to the runner or the call, or a thread_id to LangGraph",
                code="node_declaration_invalid",
            )
        found_task = f"t-{given_hash[:24]}" if place is None else f"{place}-{given_hash[:16]}"
        # An empty name is none that was left out: it is refused where the run is opened.
        return named[0], found_task if asked.task_id is None else asked.task_id
