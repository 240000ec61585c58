"""Let it run for long: `python -m tools.soak --minutes N [--rate R] [--store NAME] [--from SEED]`.

Real notifications at the firehose's rate go through real workers and dispatchers, on SQLite with
the embedded queue and on PostgreSQL with SQS. Meanwhile a worker is killed now and then, objects
are away for seconds, the server is restarted, messages come twice or broken, and old rows leave.
Memory, handles, lag and latency of the last third must not exceed those of the second, and in the
end nothing may be lost or there twice.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.soak.flatness import judge_flatness
from tests.soak.place import open_place
from tests.soak.plot import plotted
from tests.soak.run import Order, Outcome, Soak
from tools.reliability import ROOT, publish
from tools.seeds import add_seed_option, first_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.soak.flatness import Finding

STORES = ("sqlite", "postgres")
SHOWN_MAX = 20
WRONG = ("lost", "duplicate", "stale")


def play(name: str, order: Order, folder: Path | None = None) -> Outcome:
    """Soak one store, in a folder of its own, which stays if anything is wrong."""
    own = Path(tempfile.mkdtemp(dir=folder, prefix="tallgrass-soak-"))
    place = open_place(
        name, own, lease_s=order.lease_s, retry_s=order.retry_s, with_sqs=order.with_sqs
    )
    try:
        outcome = Soak(place, order, lambda line: print(f"  {line}", flush=True)).run()
    finally:
        place.close()
    if any(outcome.judgement[kind] for kind in WRONG) or outcome.ended:
        print(f"  what it left: {own}")
    else:
        shutil.rmtree(own)
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak all stores; 1 if one was not flat, or anything was lost, doubled or stale."""
    options = _options(arguments)
    first = first_seed(options)
    order = Order(
        seed=first, rate=options.rate, seconds=60 * options.minutes,
        with_sqs=options.queue == "sqs",
    )  # fmt: skip
    figures: dict[str, int | str] = {
        "minutes": f"{options.minutes:g}", "units a second": f"{options.rate:g}",
        "first seed": str(first), "queue of PostgreSQL": options.queue,
    }  # fmt: skip
    bad = False
    for name in STORES if options.store is None else (options.store,):
        outcome = play(name, order, options.folder)
        findings = [] if order.is_short else judge_flatness(outcome.samples)
        told = _show(name, outcome, findings, options.plots)
        bad = bad or not _is_good(outcome, findings)
        figures |= {f"{name}: {what}": value for what, value in told.items()}
    publish("soak", figures)
    return 1 if bad else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="for how long, each store (5)")
    parser.add_argument("--rate", type=float, default=350.0, help="units a second (350)")
    parser.add_argument("--store", choices=STORES, help="one store (both, one after the other)")
    parser.add_argument(
        "--queue", choices=("sqs", "embedded"), default="sqs", help="PostgreSQL's queue (sqs)"
    )
    add_seed_option(parser)
    parser.add_argument("--folder", type=Path, help="where its files lie (a temporary folder)")
    parser.add_argument(
        "--plots", type=Path, default=ROOT / "build", help="where plots are written (build)"
    )
    return parser.parse_args(arguments)


def _is_good(outcome: Outcome, findings: Sequence[Finding]) -> bool:
    wrong = any(outcome.judgement[kind] for kind in WRONG)
    # A short run says nothing of what lasts: a starved process may lose a lease in it.
    lasting = not outcome.ended or not findings
    return not wrong and lasting and all(each.is_flat for each in findings)


def _show(
    name: str, outcome: Outcome, findings: Sequence[Finding], plots: Path
) -> dict[str, int | str]:
    """Print what was found, and return it for the page."""
    plots.mkdir(parents=True, exist_ok=True)
    plot = plots / f"soak-{name}.svg"
    plot.write_text(plotted(name, outcome.samples), encoding="utf-8")
    counts = outcome.judgement["counts"]
    wrong = {kind: len(outcome.judgement[kind]) for kind in WRONG}
    faults = {"kills": outcome.kills, "object outages": outcome.outages,
              "server restarts": outcome.restarts}  # fmt: skip
    print(f"{name}: {_counted({**counts, **faults, 'messages': outcome.messages})}")
    print(f"  cores: {', '.join(f'{who} {n:.2f}' for who, n in outcome.cores.items())}")
    for each in findings:
        verdict = "flat" if each.is_flat else "GROWS"
        print(
            f"  {each.name:<30} {each.second:>10.1f} {each.last:>10.1f} {each.limit:>10.1f}"
            f" {each.unit:<3} {verdict}"
        )
    for kind in wrong:
        for text in outcome.judgement[kind][:SHOWN_MAX]:
            print(f"  {kind.upper()} {text}")
    for who, times in outcome.ended.items():
        print(f"  ENDED {who} ended {times} times though nobody killed it: see its log")
    rate = counts.get("units", 0) / max(outcome.seconds, 1e-9)
    flat = _flatness(findings)
    print(f"{name}: {rate:.0f} units/s for {outcome.seconds:.0f} s, {_counted(wrong)}, {flat}"
          f" (plot: {plot})", flush=True)  # fmt: skip
    shown = {each.name: f"{each.second:.1f} → {each.last:.1f} {each.unit}".strip()
             for each in findings}  # fmt: skip
    return {**counts, **faults, **shown, **wrong, "verdict": flat}


def _flatness(findings: Sequence[Finding]) -> str:
    if not findings:
        return "too short to tell whether it is flat"
    growing = [each.name for each in findings if not each.is_flat]
    return f"NOT flat: {', '.join(growing)}" if growing else "flat"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


if __name__ == "__main__":
    sys.exit(main())
