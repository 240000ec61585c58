"""Poison messages for people and programs. A body never reaches a terminal as it came."""

import sys
from collections.abc import Iterator, Mapping, Sequence

from tallgrass.cli.tables import cell, say, show_facts, show_table
from tallgrass.cli.text import printable
from tallgrass.intake.poison import StoredPoison
from tallgrass.poison_feeding import Candidate
from tallgrass.views.poison import body_text

_HEX_COLUMNS = 16
_STATE_STYLES = {"open": "yellow", "begun": "red", "fed": "green"}


def show_page(messages: Sequence[StoredPoison], next_cursor: int | None) -> None:
    """Print a page of messages, one a line."""
    if not messages:
        say("No poison messages match.")
        return
    show_table(
        ("id", "state", "queue", "code", "seen", "last seen", "bytes", "error"),
        [
            (
                str(message.poison_id),
                cell(message.state.value, _STATE_STYLES[message.state]),
                message.queue,
                message.error_code,
                message.times_seen,
                message.last_seen_at,
                message.body_bytes,
                message.error_message,
            )
            for message in messages
        ],
        right=("id", "seen", "bytes"),
        wide=("error",),
    )
    if next_cursor is not None:
        say(f"More: --after {next_cursor}", "dim")


def show_message(message: StoredPoison) -> None:
    """Print a message's facts."""
    show_facts(
        [
            ("state", cell(message.state.value, _STATE_STYLES[message.state])),
            ("queue", message.queue),
            ("message id", message.message_id),
            ("code", message.error_code),
            ("error", message.error_message),
            ("times seen", message.times_seen),
            ("first seen", message.first_seen_at),
            ("last seen", message.last_seen_at),
            ("body", _size(message)),
            ("sha256", message.body_sha256),
            ("fed at", message.fed_at),
            ("fed as message", message.fed_message_id),
        ],
        title=f"Poison message {message.poison_id}",
    )


def show_body(message: StoredPoison, body: bytes) -> None:
    """Print a body: text with escapes for what would steer the terminal, else hexadecimal."""
    text = body_text(message, body)
    say("Body" if text is not None else "Body (no text: hexadecimal)", "bold")
    # Indented, so that no line of it can be taken for one of ours.
    lines = _hexadecimal(body) if text is None else text.split("\n")
    sys.stdout.write("".join(f"  {printable(line)}\n" for line in lines))
    if message.is_cut:
        say(f"Cut after {len(body):,} bytes of {message.body_bytes:,}.", "yellow")


def show_feeding(
    details: Sequence[Candidate],
    *,
    dry_run: bool,
    fed: int,
    left_out: Mapping[str, int],
    untold: int,
) -> None:
    """Print what became of each message, then how many of each."""
    if not details:
        say("No poison message waits to be fed.")
        return
    done = "would be fed" if dry_run else "fed"
    show_table(
        ("id", "outcome", "now", "message"),
        [
            (
                str(one.message.poison_id),
                cell(done, "green") if one.left_out is None else cell(f"left out: {one.left_out}"),
                _now(one),
                one.sent_as,
            )
            for one in details
        ],
        right=("id",),
        wide=("now",),
    )
    if untold:
        say(f"… and {untold:,} more", "dim")
    said = [f"{fed:,} {done}", *(f"{n:,} left out: {why}" for why, n in sorted(left_out.items()))]
    say("; ".join(said) + ".")


def _now(candidate: Candidate) -> str:
    """Say in a few words what a message gives now."""
    parsed = candidate.parsed
    if parsed is None:
        message = candidate.message
        return f"only {message.kept_bytes:,} of {message.body_bytes:,} bytes are kept"
    said = [f"{unit.dataset} {unit.object_uri}" for unit in parsed.units]
    said += [f"ignored: {one.reason}" for one in parsed.ignored]
    trouble = parsed.poison or parsed.deferred
    if trouble is not None:
        said.append(f"{trouble.code}: {trouble.message}")
    return "; ".join(said)


def _size(message: StoredPoison) -> str:
    if not message.is_cut:
        return f"{message.body_bytes:,} bytes"
    return f"{message.body_bytes:,} bytes, cut: only the first {message.kept_bytes:,} are kept"


def _hexadecimal(body: bytes) -> Iterator[str]:
    for start in range(0, len(body), _HEX_COLUMNS):
        yield f"{start:08x}  {body[start : start + _HEX_COLUMNS].hex(' ')}"
