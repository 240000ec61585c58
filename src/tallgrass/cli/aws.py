"""``tallgrass aws``: what has to stand in AWS before notifications arrive."""

import sys
from collections.abc import Mapping, Sequence

import click

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.canonical_json import canonical_text
from tallgrass.cli.invocation import Invocation, examples, pass_invocation
from tallgrass.cli.text import json_bytes, print_json, printable
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.definition import Dataset
from tallgrass.errors import InvalidInput
from tallgrass.queues.aws_plan import Choice, QueuePlan, choose, plan_queue
from tallgrass.queues.aws_template import template
from tallgrass.queues.aws_volume import Estimate, estimate

_TEMPLATE_FILE = "tallgrass-aws.json"
#: CloudFormation takes a larger template only from a bucket.
_TEMPLATE_BYTES_MAX = 51_200


@click.group(name="aws", epilog=examples("tallgrass aws plan --dataset hrrr > tallgrass-aws.json"))
def command() -> None:
    """Set up AWS: the queue that NOAA's topics send to."""


@command.command(
    epilog=examples(
        "tallgrass aws plan --dataset hrrr > tallgrass-aws.json",
        "tallgrass aws plan --dataset goes-glm --dataset hrrr --prefix hrrr=hrrr.2026",
        "tallgrass aws plan --dataset nexrad-l2 --prefix '*/KTLX/*'",
    )
)
@click.option(
    "--dataset", "ids", metavar="ID", multiple=True, required=True, help="A dataset; repeatable."
)
@click.option(
    "--prefix",
    "prefixes",
    metavar="[ID=]KEY",
    multiple=True,
    help="Only keys that begin so, or with * only keys of that form; repeatable. With several "
    "datasets, ID= says whose.",
)
@click.option("--queue-name", metavar="NAME", help="Name of the queue (queue.name).")
@click.option("--region", metavar="REGION", help="Where the queue stands; else with the topics.")
@click.option(
    "--raw", is_flag=True, help="Deliver without SNS envelopes: smaller, but without signatures."
)
@click.option(
    "--output",
    type=click.Choice(["template", "table", "json"]),
    default="template",
    show_default=True,
    help="CloudFormation on stdout and words on stderr; the words; or both as one JSON document.",
)
@pass_invocation
def plan(
    invocation: Invocation,
    *,
    ids: Sequence[str],
    prefixes: Sequence[str],
    queue_name: str | None,
    region: str | None,
    raw: bool,
    output: str,
) -> None:
    """Print queue, dead-letter queue, policy, subscriptions and role as CloudFormation.

    With messages a day and what they cost a month. Nothing is contacted and nothing is changed:
    deploy the template with the tool of your choice.
    """
    config = invocation.config
    choices = _choices(open_catalogue(config), ids, prefixes)
    made = plan_queue(
        choices,
        queue_name=queue_name or config.text("queue.name"),
        region=region,
        visibility_s=config.number("queue.visibility_s"),
        max_receive_count=config.integer("queue.max_receive_count"),
        raw_delivery=raw,
    )
    guess = estimate(choices, wait_s=config.integer("queue.wait_s"))
    if output == "json":
        print_json(_document(made, guess))
        return
    words = "".join(f"{printable(line)}\n" for line in _words(made, guess))
    if output == "table":
        sys.stdout.write(words)
        return
    print_json(template(made))
    sys.stderr.write(words)


def _choices(catalogue: Catalogue, ids: Sequence[str], prefixes: Sequence[str]) -> list[Choice]:
    datasets = {name: catalogue.named(name) for name in ids}
    wanted: dict[str, list[str]] = {name: [] for name in datasets}
    for prefix in prefixes:
        name, key = _owner(prefix, datasets)
        wanted[name].append(key)
    return [choose(dataset, wanted[name]) for name, dataset in datasets.items()]


def _owner(prefix: str, datasets: Mapping[str, Dataset]) -> tuple[str, str]:
    """Return whose prefix it is; guessing would cut a dataset off without a word."""
    name, equals, key = prefix.partition("=")
    if equals and name in datasets:
        return name, key
    if len(datasets) > 1:
        raise InvalidInput(
            f"--prefix {prefix!r}: several datasets are chosen; say whose, such as "
            f"--prefix {next(iter(datasets))}={prefix}"
        )
    return next(iter(datasets)), prefix


def _deploy(plan: QueuePlan) -> str:
    return (
        f"aws cloudformation deploy --template-file {_TEMPLATE_FILE} --stack-name "
        f"tallgrass-{plan.queue_name.replace('_', '-')} --capabilities CAPABILITY_IAM "
        f"--region {plan.region}"
    )


def _settings(plan: QueuePlan) -> dict[str, str]:
    """Return what the configuration says once the stack stands."""
    return {
        "queue.url": "the stack's output QueueUrl",
        "queue.topics": " ".join(plan.topics),
        "queue.signatures": "off" if plan.raw_delivery else "required",
    }


def _notes(plan: QueuePlan) -> list[str]:
    notes = [f"{one.topic}: {one.note}" for one in plan.subscriptions if one.note is not None]
    if plan.other_regions:
        notes.append(
            f"messages also come from {', '.join(plan.other_regions)}: SNS delivers over regions, "
            "and each subscription is made in its topic's"
        )
    if len(json_bytes(template(plan))) > _TEMPLATE_BYTES_MAX:
        notes.append(
            f"the template has more than {_TEMPLATE_BYTES_MAX:,} bytes: deploy it with --s3-bucket"
        )
    if plan.raw_delivery:
        notes.append("raw messages carry no signature: trust rests on the queue policy alone")
    return notes


def _document(plan: QueuePlan, guess: Estimate) -> dict[str, object]:
    return {
        "template": template(plan),
        "queue_name": plan.queue_name,
        "region": plan.region,
        "subscriptions": plan.subscriptions,
        "estimate": guess,
        "notes": _notes(plan),
        "deploy": _deploy(plan),
        "settings": _settings(plan),
    }


def _words(plan: QueuePlan, guess: Estimate) -> list[str]:
    subscriptions = [
        f"  {one.topic} ({', '.join(one.datasets)}): {_passes(one.filter_policy)}"
        for one in plan.subscriptions
    ]
    least, most = guess.cost_usd_a_month
    return [
        f"Queue {plan.queue_name} in {plan.region}, subscribed to",
        *subscriptions,
        "Messages a day (an estimate)",
        *(f"  {one.dataset}: {_span(one.low, one.high)}; {one.basis}" for one in guess.volumes),
        f"Cost of the queue a month (an estimate): {least:,.2f} to {most:,.2f} USD",
        *(f"  {line}" for line in guess.arithmetic),
        f"  price: {guess.price}",
        f"  not counted: {guess.not_counted}",
        *(f"Note: {note}" for note in _notes(plan)),
        f"Deploy: tallgrass aws plan … > {_TEMPLATE_FILE}, then",
        f"  {_deploy(plan)}",
        "Then set",
        *(f"  {key} = {value}" for key, value in _settings(plan).items()),
        "and run: tallgrass doctor",
    ]


def _passes(policy: Mapping[str, object] | None) -> str:
    if policy is None:
        return "everything"
    return f"what passes {canonical_text(policy)}"


def _span(low: int, high: int) -> str:
    return f"{high:,}" if low == high else f"{low:,} to {high:,}"
