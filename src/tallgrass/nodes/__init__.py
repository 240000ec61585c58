"""Reliable nodes for LangGraph, and for plain functions.

A `NodeRunner` runs a function as a node: recorded before it starts, retried within bounds, its
result durable before anybody is told of it, cached by content, resumed after a crash. The modules,
in the order in which a call meets them:

    node_runner      `NodeRunner`: the order of steps, sync and async
    protocols        what others may bring: gate, validation, energy, lineage, compensation, budget
    identity         the content address of an execution; names of folders for ids
    code_version     a version derived from the code, where nobody gives one; beside it
                     code_lookups (bytecode), code_modules, code_homes and code_state
    values           values as JSON and back, by type, without pickle
    cache_store      results by content address: a folder, or an object store
    wal_store        ``wal/<run_id>/<node_id>/``: views of one journal a run
    journal          the append-only file that is the truth; entries and views are derived from it
    retry_policy     when to try again, and how long to wait
    common_errors    which errors of well-known libraries may pass, and which never do
    graphs           `reliable`: every node of a LangGraph graph behind a runner (extra `langgraph`)
    effects          `effect`: what a node does outside, announced, made once, written down
    compensation     what undoes the effects of a node that failed for good
    escalation       who is told of it: alerts, reviews
    validation_policy
                     rules before and after a node; checkpoints hear of them
    energy_policy    energy and carbon of each attempt, estimated from its CPU time
    error_budget     how much failure a pipeline has left, and what may be run again
    lineage          OpenLineage and PROV-O of each execution, from the journal alone

To build on it: give a `NodeHooks` to the runner (`protocols` says when each hook is called). Inside
a node's function `current_node()` is the attempt at work. `NodeRunner.wrap` keeps signatures; `run`
and `arun` are what it calls.
"""

from tallgrass.errors import (
    GovernanceError,
    NetworkError,
    NodeFailed,
    NodeParked,
    TransientError,
    ValidationError,
)
from tallgrass.nodes.compensation import Compensations
from tallgrass.nodes.effects import aeffect, effect, stage_file
from tallgrass.nodes.node_runner import NodeRunner
from tallgrass.nodes.protocols import NodeDeclaration, NodeHooks, NodeOutcome, current_node
from tallgrass.nodes.retry_policy import RetryPolicy
from tallgrass.nodes.values import Values

__all__ = [
    "Compensations",
    "GovernanceError",
    "NetworkError",
    "NodeDeclaration",
    "NodeFailed",
    "NodeHooks",
    "NodeOutcome",
    "NodeParked",
    "NodeRunner",
    "RetryPolicy",
    "TransientError",
    "ValidationError",
    "Values",
    "aeffect",
    "current_node",
    "effect",
    "stage_file",
]
