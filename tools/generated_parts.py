"""The generated parts of the documents: each a function that returns Markdown."""

from __future__ import annotations

import functools
import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tallgrass
from tallgrass.cli.main import cli
from tallgrass.error_codes import CodeScope, registry
from tallgrass.ledger.record import FieldModel, WalAttempt, WalRecord, field_models
from tallgrass.ledger.transitions import ATTEMPT_EDGES, EDGES, TERMINAL
from tallgrass.ledger.vocabulary import (
    AttemptStatus,
    CheckStatus,
    Intent,
    ProvenanceStatus,
    StacStatus,
    Status,
)
from tallgrass.settings import SETTINGS, TABLES
from tallgrass.telemetry.names import EVENTS, METRICS, SPANS
from tools import bench_page, conformance_page, dataset_page, library_page
from tools.conformance_list import DOCUMENTS
from tools.state_diagram import state_diagram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from enum import StrEnum

    from tallgrass.setting_form import Setting

MIGRATIONS = Path(tallgrass.__file__).parent / "storage" / "migrations"

#: As wide as the command line's help is at most.
HELP_COLUMNS = 100

_WORDS = {
    str: "text",
    int: "integer",
    bytes: "bytes",
    datetime: "instant",
    tuple: "JSON list",
}

#: Field → its vocabulary's title.
_VOCABULARIES: dict[str, type[StrEnum]] = {
    "`status` of a record": Status,
    "`status` of an attempt": AttemptStatus,
    "`intent`, `rerun_intent`": Intent,
    "`integrity_status`, `metadata_status`": CheckStatus,
    "`stac_status`": StacStatus,
    "`provenance_status`": ProvenanceStatus,
}


def digest() -> str:
    """Return the SHA-256 over fields, edges and migrations: what the documents describe."""
    described = {
        "record": [_described(model) for model in field_models(WalRecord)],
        "attempt": [_described(model) for model in field_models(WalAttempt)],
        "edges": [[edge.source, edge.target] for edge in EDGES],
        "attempt_edges": sorted([source or "", target] for source, target in ATTEMPT_EDGES),
        "migrations": {
            path.relative_to(MIGRATIONS).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for dialect in ("postgres", "sqlite")  # the ledger's; the queue has its own file
            for path in sorted((MIGRATIONS / dialect).glob("*.sql"))
        },
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _described(model: FieldModel) -> list[object]:
    return [model.name, _type_word(model), model.nullable, model.canonical, *model.vocabulary]


def _digest_line() -> str:
    return f"Digest of fields, transitions and tables: `sha256:{digest()}`\n"


def _fields(row: type[WalRecord | WalAttempt], *, canonical: bool) -> str:
    models = [model for model in field_models(row) if model.canonical is canonical]
    return _table(
        ("field", "type", "null", "meaning"),
        (
            (f"`{model.name}`", _type_word(model), _yes(truth=model.nullable), model.doc)
            for model in models
        ),
    )


def _type_word(model: FieldModel) -> str:
    return "word" if model.vocabulary else _WORDS.get(model.kind, "JSON object")


def _vocabularies() -> str:
    return _table(
        ("field", "words"),
        (
            (title, ", ".join(f"`{word}`" for word in vocabulary))
            for title, vocabulary in _VOCABULARIES.items()
        ),
    )


def _edges() -> str:
    return _table(
        ("", "from", "to", "when"),
        (
            (str(number), f"`{edge.source or 'null'}`", f"`{edge.target}`", edge.when)
            for number, edge in enumerate(EDGES, start=1)
        ),
    )


def _diagram() -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    {edge.source or '[*]'} --> {edge.target}" for edge in EDGES]
    lines += [f"    {status} --> [*]" for status in Status if status in TERMINAL]
    return "\n".join([*lines, "```", ""])


def state_machine_picture() -> str:
    """Return the picture of the statuses and their edges."""
    return state_diagram(EDGES)


def _attempt_edges() -> str:
    order = [None, *AttemptStatus]
    edges = sorted(ATTEMPT_EDGES, key=lambda edge: [order.index(status) for status in edge])
    return _table(
        ("from", "to"), ((f"`{source or 'null'}`", f"`{target}`") for source, target in edges)
    )


def _settings() -> str:
    return _table(
        ("key", "variable", "default", "shapes output", "meaning"),
        (
            (f"`{s.key}`", f"`{s.variable}`", _default(s), _yes(truth=s.shapes_output), s.doc)
            for s in SETTINGS
        ),
    )


def _default(setting: Setting) -> str:
    value = setting.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if isinstance(value, str) else f"{value:g}"


def _setting_tables() -> str:
    return _table(("key", "meaning"), ((f"`{key}`", doc) for key, doc in TABLES.items()))


def _codes(scope: CodeScope) -> str:
    unit = scope is CodeScope.UNIT
    entries = [entry for entry in registry().values() if entry.scope is scope]
    head = (
        ("code", "retried", "meaning", "what to do") if unit else ("code", "meaning", "what to do")
    )
    return _table(
        head,
        (
            (f"`{e.code}`", *((_yes(truth=e.retried),) if unit else ()), e.meaning, e.remedy)
            for e in entries
        ),
    )


def _metrics() -> str:
    return _table(
        ("metric", "type", "labels", "unit", "meaning"),
        (
            (f"`{m.name}`", m.kind, _names(m.all_labels), f"`{m.unit}`", m.meaning)
            for m in METRICS.values()
        ),
    )


def _spans() -> str:
    return _table(
        ("span", "below", "attributes", "meaning"),
        (
            (f"`{s.name}`", f"`{s.parent}`" if s.parent else "", _names(s.attributes), s.meaning)
            for s in SPANS.values()
        ),
    )


def _log_events() -> str:
    return _table(
        ("event", "level", "fields", "meaning"),
        ((f"`{e.name}`", e.level, _names(e.fields), e.meaning) for e in EVENTS.values()),
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _commands() -> str:
    """Return the help of every command, in reading order, as a terminal of 100 columns shows it."""
    return "\n".join(
        f"{'#' * (len(names) + 2)} tallgrass{''.join(f' {name}' for name in names)}\n\n"
        f"```text\n{text}\n```\n"
        for names, text in command_help(cli)
    )


def command_help(
    command: click.Command, parent: click.Context | None = None
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the names and the help of a command and of all commands below it."""
    settings: dict[str, Any] = {
        **command.context_settings,
        "terminal_width": HELP_COLUMNS,
        "max_content_width": HELP_COLUMNS,
    }
    name = command.name if parent else "tallgrass"
    context = click.Context(command, parent, info_name=name, **settings)
    names = tuple(context.command_path.split()[1:])
    yield names, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from command_help(below, context)


def _yes(*, truth: bool) -> str:
    return "yes" if truth else "no"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


#: Name of a part → what writes it; None where there is nothing new to write.
PARTS: dict[str, Callable[[], str | None]] = {
    "benchmarks": bench_page.page,
    "digest": _digest_line,
    "record-fields": functools.partial(_fields, WalRecord, canonical=True),
    "record-own-fields": functools.partial(_fields, WalRecord, canonical=False),
    "attempt-fields": functools.partial(_fields, WalAttempt, canonical=True),
    "vocabularies": _vocabularies,
    "edges": _edges,
    "diagram": _diagram,
    "attempt-edges": _attempt_edges,
    "settings": _settings,
    "setting-tables": _setting_tables,
    "commands": _commands,
    "metrics": _metrics,
    "spans": _spans,
    "log-events": _log_events,
    **{f"{scope.value}-codes": functools.partial(_codes, scope) for scope in CodeScope},
    "conformance-counts": conformance_page.counts,
    **{
        f"conformance-{name.lower()}": functools.partial(conformance_page.document_part, name)
        for name in DOCUMENTS
    },
    "library": library_page.library,
    "datasets-read": dataset_page.read_keys,
    "datasets-generic": dataset_page.generic_keys,
}
