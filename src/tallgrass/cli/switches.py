"""``tallgrass switches`` and ``tallgrass freeze``: stop work, and let it go on."""

import click

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.switching import turn_switches
from tallgrass.cli.identity import acting, actor_option
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import cell, say, show_table
from tallgrass.cli.text import print_json
from tallgrass.governance.switches import ALL_DATASETS, KillSwitch, SwitchScope

_reason_option = click.option("--reason", required=True, help="Why; kept in the audit log.")


@click.group(
    name="switches",
    epilog=examples(
        "tallgrass switches list",
        "tallgrass switches on --scope ingest --dataset goes-glm --reason 'bad calibration'",
    ),
)
def command() -> None:
    """Stop work of a dataset, or of all, and let it go on: list, on, off."""


@command.command(
    name="list",
    epilog=examples("tallgrass switches list", "tallgrass switches list --all --output json"),
)
@click.option("--all", "everything", is_flag=True, help="Also switches that are off again.")
@output_option
@pass_invocation
def list_switches(invocation: Invocation, *, everything: bool, as_json: bool) -> None:
    """List the switches that are on: what they stop, who turned them, and why."""
    with invocation.stores(read_only=True) as stores:
        found = [each for each in stores.switches.switches() if everything or each.is_on]
    if as_json:
        print_json({"switches": found})
    else:
        _show(found)


def _scopes_and_datasets(function: click.decorators.FC) -> click.decorators.FC:
    options = (
        click.option(
            "--scope",
            "scopes",
            type=click.Choice([scope.value for scope in SwitchScope]),
            multiple=True,
            required=True,
            help="What is stopped; repeatable.",
        ),
        click.option("--dataset", "datasets", metavar="ID", multiple=True, help="Of this dataset."),
        click.option("--all", "everything", is_flag=True, help="Of all datasets."),
        _reason_option,
        actor_option,
        output_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command(
    name="on",
    epilog=examples(
        "tallgrass switches on --scope ingest --dataset goes-glm --reason 'bad calibration'",
        "tallgrass switches on --scope replay --scope dispatch --all --reason INC-7",
    ),
)
@_scopes_and_datasets
@pass_invocation
def turn_on(
    invocation: Invocation,
    *,
    scopes: tuple[str, ...],
    datasets: tuple[str, ...],
    everything: bool,
    reason: str,
    actor: str | None,
    as_json: bool,
) -> None:
    """Stop work. What is under way finishes; what arrives waits in the ledger."""
    chosen = _chosen(scopes, datasets, everything=everything)
    _report(_turn(invocation, chosen, actor, reason, is_on=True), as_json=as_json)


@command.command(
    name="off",
    epilog=examples("tallgrass switches off --scope ingest --dataset goes-glm --reason mended"),
)
@_scopes_and_datasets
@pass_invocation
def turn_off(
    invocation: Invocation,
    *,
    scopes: tuple[str, ...],
    datasets: tuple[str, ...],
    everything: bool,
    reason: str,
    actor: str | None,
    as_json: bool,
) -> None:
    """Let work go on. `--all` clears the switch for all datasets, not those of single ones."""
    chosen = _chosen(scopes, datasets, everything=everything)
    _report(_turn(invocation, chosen, actor, reason, is_on=False), as_json=as_json)


@click.group(
    name="freeze",
    epilog=examples(
        "tallgrass freeze on --reason INC-7", "tallgrass freeze off --reason 'INC-7 is closed'"
    ),
)
def freeze() -> None:
    """Stop everything, and let it go on: on, off."""


@freeze.command(name="on", epilog=examples("tallgrass freeze on --reason INC-7"))
@_reason_option
@actor_option
@output_option
@pass_invocation
def freeze_on(invocation: Invocation, *, reason: str, actor: str | None, as_json: bool) -> None:
    """Stop ingest, replay, dispatch and nodes of all datasets."""
    with invocation.stores(read_only=False) as stores:
        by = acting(stores, actor, action="freeze_on")
        scopes = stores.switches.freeze(actor=by, reason=reason)
    _report_freeze("frozen", scopes, as_json=as_json)


@freeze.command(name="off", epilog=examples("tallgrass freeze off --reason 'INC-7 is closed'"))
@_reason_option
@actor_option
@output_option
@pass_invocation
def freeze_off(invocation: Invocation, *, reason: str, actor: str | None, as_json: bool) -> None:
    """Clear what the freeze set. A switch that was on before it, or turned since, stays on."""
    with invocation.stores(read_only=False) as stores:
        by = acting(stores, actor, action="freeze_off")
        scopes = stores.switches.thaw(actor=by, reason=reason)
    _report_freeze("thawed", scopes, as_json=as_json)


def _chosen(
    scopes: tuple[str, ...], datasets: tuple[str, ...], *, everything: bool
) -> list[tuple[SwitchScope, str]]:
    if everything == bool(datasets) or ALL_DATASETS in datasets:
        message = "say which datasets: --dataset ID, or --all"
        raise click.UsageError(message)
    names = (ALL_DATASETS,) if everything else tuple(dict.fromkeys(datasets))
    return [(SwitchScope(scope), name) for scope in dict.fromkeys(scopes) for name in names]


def _turn(
    invocation: Invocation,
    chosen: list[tuple[SwitchScope, str]],
    actor: str | None,
    reason: str,
    *,
    is_on: bool,
) -> list[KillSwitch]:
    with invocation.stores(read_only=False) as stores:
        by = acting(stores, actor, action="switch_on" if is_on else "switch_off")
        catalogue = open_catalogue(invocation.config)
        turned = turn_switches(stores, catalogue, chosen, is_on=is_on, actor=by, reason=reason)
        # Whoever lets all datasets go on must see those that a switch of their own stops.
        scopes = {scope for scope, name in chosen if name == ALL_DATASETS and not is_on}
        still = (each for each in stores.switches.switches() if each.is_on and each.scope in scopes)
        return [*turned, *still]


def _report(switches: list[KillSwitch], *, as_json: bool) -> None:
    if as_json:
        print_json({"switches": switches})
    else:
        _show(switches)


def _report_freeze(word: str, scopes: list[SwitchScope], *, as_json: bool) -> None:
    if as_json:
        print_json({word: scopes})
        return
    named = ", ".join(scope.value for scope in scopes)
    if word == "frozen":
        say(f"Frozen: {named}." if scopes else "Everything was stopped already.")
    else:
        say(f"Going on: {named}." if scopes else "There is no freeze.")
    say("`tallgrass switches list` tells what is stopped now.", style="dim")


def _show(switches: list[KillSwitch]) -> None:
    if not switches:
        say("No switch is on: everything runs.")
        return
    show_table(
        ("scope", "dataset", "state", "since", "by", "reason"),
        [
            (
                each.scope.value,
                "all" if each.dataset == ALL_DATASETS else each.dataset,
                cell("stopped" if each.is_on else "runs", "red" if each.is_on else "green"),
                each.changed_at,
                f"{each.actor} (freeze)" if each.by_freeze else each.actor,
                each.reason,
            )
            for each in switches
        ],
        wide=("reason",),
    )
