"""``tallgrass replay``: run units again, by a plan; ``--dry-run`` makes the plan and no more."""

from pathlib import Path

import click

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.planning import Plan, PlanRequest, open_plan, request_of
from tallgrass.bootstrap.previewing import preview
from tallgrass.bootstrap.replay_reporting import reported
from tallgrass.bootstrap.stores import Stores
from tallgrass.cli.invocation import Invocation, examples, output_option
from tallgrass.cli.plan_view import show_plan, show_preview
from tallgrass.cli.replay_options import selection_options
from tallgrass.cli.replay_run import RunFlags, carry_out, run_options
from tallgrass.cli.replay_runs import diff, runs
from tallgrass.cli.whole_files import appearing_whole
from tallgrass.replay.selection_file import render_selection
from tallgrass.replay.selection_words import Selected


@click.group(
    name="replay",
    invoke_without_command=True,
    epilog=examples(
        "tallgrass replay --dry-run --dataset goes-glm --since 2026-06-01 --until 2026-06-02",
        "tallgrass replay --dry-run --selection-file june.yaml --plan-out plan.jsonl",
        "tallgrass replay --dataset goes-glm --since 2026-06-01 --reason backfill",
        "tallgrass replay --plan plan.jsonl --approval ID",
    ),
)
@selection_options
@run_options
@click.option("--dry-run", is_flag=True, help="Make the plan, change nothing.")
@click.option(
    "--compare",
    is_flag=True,
    help="With --dry-run: tell what a re-run would change in items, made of the kept evidence.",
)
@click.option(
    "--plan-out",
    metavar="FILE|-",
    help="Write the plan there, as JSON Lines; it appears whole or not at all.",
)
@click.option("--reason", metavar="CODE", help="Why: a listed or a registered reason.")
@click.option(
    "--replay-run-id",
    metavar="ID",
    help="Name the run, or resume the run of that name; else a new id is drawn.",
)
@click.option("--env", metavar="ENV", help="The environment that is meant; another is refused.")
@click.option(
    "--save-selection",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the selection there, for --selection-file.",
)
@output_option
@click.pass_context
def command(  # noqa: PLR0913 - one a flag
    ctx: click.Context,
    *,
    selected: Selected,
    flags: RunFlags,
    dry_run: bool,
    compare: bool,
    plan_out: str | None,
    reason: str | None,
    replay_run_id: str | None,
    env: str | None,
    save_selection: Path | None,
    as_json: bool,
) -> None:
    """Run units again: failed ones, and with an approved plan succeeded ones.

    All conditions hold together. Every time span is half open: since belongs to it, until does not.
    Ends with 1 if units failed, or if more fields differ than are borne.
    """
    if ctx.invoked_subcommand is not None:
        return
    invocation = ctx.find_object(Invocation)
    assert invocation is not None  # noqa: S101 - the group made it
    saved = selected.saved
    reason = reason or (None if saved is None else saved.replay_reason)
    if not (dry_run or (saved is not None and saved.dry_run)):
        _require_no_dry_flags(ctx, plan_out, save_selection, compare=compare)
        request = _run_request(ctx, selected, flags, reason, replay_run_id, env)
        carry_out(
            invocation,
            request,
            flags,
            reason=reason,
            replay_run_id=replay_run_id,
            meant_for=(env, None if saved is None else saved.env),
            as_json=as_json,
        )
        return
    _require_no_run_flags(ctx, flags)
    request = plan_request(selected, flags, reason=reason, replay_run_id=replay_run_id, env=env)
    with (
        reported(invocation.config, "replay", dry_run=True),
        invocation.stores(read_only=True) as stores,
    ):
        plan = open_plan(invocation.config, stores, request)
        if save_selection is not None:
            text = render_selection(plan.header.selection, env=plan.header.env, reason=reason)
            with appearing_whole(save_selection) as file:
                file.write(text.encode())
        if compare:
            _compare(invocation, stores, plan, as_json=as_json)
        else:
            show_plan(plan, plan_out, as_json=as_json)


command.add_command(runs)
command.add_command(diff)


def _compare(invocation: Invocation, stores: Stores, plan: Plan, *, as_json: bool) -> None:
    catalogue = open_catalogue(invocation.config)
    show_preview(plan, preview(invocation.config, stores, catalogue, plan), as_json=as_json)


def _run_request(
    ctx: click.Context,
    selected: Selected,
    flags: RunFlags,
    reason: str | None,
    replay_run_id: str | None,
    env: str | None,
) -> PlanRequest | None:
    """Return what is to be planned; nothing where a plan, or a run to resume, says it."""
    selection = selected.selection
    selects = selected.saved is not None or not selection.is_empty
    said = selection.max_records is not None or selection.includes_succeeded
    said = bool(said or flags.expected or flags.force or flags.policy_ref)
    if flags.plan is not None:
        if selects or said:
            message = "--plan says it all: leave out the selection and what shall change"
            raise click.UsageError(message, ctx=ctx)
        return None
    if not selects and replay_run_id is not None:
        if said or flags.change_ref or flags.incident_ref:
            message = f"{replay_run_id} goes on as it was begun: leave out what it should do"
            raise click.UsageError(message, ctx=ctx)
        return None
    if reason is None:
        message = (
            "say why: --reason CODE (dlq-drain, incident, backfill, test, or a registered one)"
        )
        raise click.UsageError(message, ctx=ctx)
    return plan_request(selected, flags, reason=reason, replay_run_id=replay_run_id, env=env)


def _require_no_dry_flags(
    ctx: click.Context, plan_out: str | None, save_selection: Path | None, *, compare: bool
) -> None:
    if plan_out is not None or save_selection is not None or compare:
        message = "--plan-out, --save-selection and --compare go with --dry-run"
        raise click.UsageError(message, ctx=ctx)


def _require_no_run_flags(ctx: click.Context, flags: RunFlags) -> None:
    if flags.plan is not None or flags.approval_id is not None or flags.confirmed:
        message = "--plan, --approval and --yes run something: leave out --dry-run"
        raise click.UsageError(message, ctx=ctx)


def plan_request(
    selected: Selected,
    flags: RunFlags,
    *,
    reason: str | None,
    replay_run_id: str | None,
    env: str | None,
) -> PlanRequest:
    """Return what is asked for by flags and by the selection's file; flags come first."""
    return request_of(
        selected,
        reason=reason,
        replay_run_id=replay_run_id,
        env=env,
        incident_ref=flags.incident_ref,
        change_ref=flags.change_ref,
        policy_ref=flags.policy_ref,
        expected=flags.expected,
        forced=flags.force,
    )
