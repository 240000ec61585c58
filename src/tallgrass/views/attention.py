"""Picks what a person should look at from an overview, the most urgent first (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tallgrass.intake.poison import PoisonState
from tallgrass.ledger.vocabulary import Status
from tallgrass.telemetry.freshness import Freshness
from tallgrass.telemetry.slo import Zone
from tallgrass.views.status import not_fresh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallgrass.views.status import Overview


class Level(StrEnum):
    """How urgent something is, the most urgent first."""

    ALARM = "alarm"
    WARNING = "warning"
    NOTE = "note"


class Subject(StrEnum):
    """What a thing to look at is about; command line and console each know where it is shown."""

    SLO = "slo"
    DATASETS = "datasets"
    DEAD_LETTERS = "dead_letters"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    STALE = "stale"
    POISON = "poison"
    OUTBOX = "outbox"
    SWITCHES = "switches"
    WORKERS = "workers"


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing to look at."""

    level: Level
    subject: Subject
    text: str


def attention(found: Overview) -> list[Attention]:
    """Return what asks for a person; nothing where all is well."""
    order = list(Level)
    return sorted(_all(found), key=lambda each: order.index(each.level))


def _all(found: Overview) -> Iterator[Attention]:
    yield from _budgets(found)
    yield from _standing_still(found)
    yield from _units(found)
    yield from _outlets(found)
    for switch in found.switches:
        text = f"{switch.scope.value} of {switch.dataset} is switched off: {switch.reason}"
        yield Attention(Level.NOTE, Subject.SWITCHES, text)


def _budgets(found: Overview) -> Iterator[Attention]:
    for one in found.health.slos:
        if one.zone in {Zone.RED, Zone.BLACK}:
            left = f"{float(one.remaining):.0%} of the error budget is left"
            told = "the error budget is spent" if one.zone is Zone.BLACK else left
            yield Attention(Level.ALARM, Subject.SLO, f"{told}: {one.slo.promise}")


def _standing_still(found: Overview) -> Iterator[Attention]:
    states = not_fresh(found)
    if stuck := states.get(Freshness.WE_ARE_STUCK.value):
        yield Attention(Level.ALARM, Subject.DATASETS, f"work stands still: {', '.join(stuck)}")
    if failing := states.get(Freshness.FAILING.value):
        text = f"news come and none of them reaches the catalog: {', '.join(failing)}"
        yield Attention(Level.ALARM, Subject.DATASETS, text)
    if silent := states.get(Freshness.NOAA_SILENT.value):
        yield Attention(Level.NOTE, Subject.DATASETS, f"NOAA is silent: {', '.join(silent)}")
    if found.stats.due and not found.stats.live_workers:
        text = f"{found.stats.due:,} units are due and no worker is there"
        yield Attention(Level.WARNING, Subject.WORKERS, text)
    if found.health.lapsed_workers:
        text = f"{found.health.lapsed_workers:,} workers ended without a word"
        yield Attention(Level.WARNING, Subject.WORKERS, text)


def _units(found: Overview) -> Iterator[Attention]:
    if found.queue is not None and found.queue.dead:
        text = f"{found.queue.dead:,} dead letters"
        yield Attention(Level.WARNING, Subject.DEAD_LETTERS, text)
    counts = found.by_status
    named = (
        (counts[Status.FAILED.value], "failed", Subject.FAILED, Level.WARNING),
        (counts[Status.QUARANTINED.value], "quarantined", Subject.QUARANTINED, Level.WARNING),
        (sum(found.stats.stale.values()), "stale", Subject.STALE, Level.WARNING),
    )
    for number, what, subject, level in named:
        if number:
            yield Attention(level, subject, f"{number:,} {_units_of(number)} {what}")
    if waiting := found.poison.get(PoisonState.OPEN, 0):
        text = f"{waiting:,} messages could not be understood"
        yield Attention(Level.WARNING, Subject.POISON, text)


def _outlets(found: Overview) -> Iterator[Attention]:
    for target, counts in found.undelivered.items():
        if counts.exhausted:
            text = f"{counts.exhausted:,} events for {target} wait for a person"
            yield Attention(Level.WARNING, Subject.OUTBOX, text)


def _units_of(number: int) -> str:
    return "unit" if number == 1 else "units"
