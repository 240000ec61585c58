"""Options that select units for replay commands, and the selection that they make."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from tallgrass.errors import InvalidInput
from tallgrass.replay.selection_words import Selected, SelectionWords, narrowed, selection_of

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Bytes of a file of ids: ten thousand of them, with room for blank lines.
_IDS_BYTES_MAX = 1 << 20


_UNIT_OPTIONS = (
    click.option(
        "--dataset", "datasets", metavar="ID", multiple=True, help="Only this dataset; repeatable."
    ),
    click.option(
        "--bucket-prefix",
        metavar="URI",
        help="Only objects whose URI begins so, such as s3://noaa-goes19/GLM-L2-LCFA/.",
    ),
    click.option("--since", metavar="TIME", help="Data that start at or after this time or date."),
    click.option("--until", metavar="TIME", help="Data that start before this time or date."),
    click.option("--event-since", metavar="TIME", help="Announced at or after this time or date."),
    click.option("--event-until", metavar="TIME", help="Announced before this time or date."),
    click.option("--created-since", metavar="TIME", help="Recorded at or after this time or date."),
    click.option("--created-until", metavar="TIME", help="Recorded before this time or date."),
    click.option("--wal-id", "wal_ids", multiple=True, metavar="ID", help="This unit; repeatable."),
    click.option(
        "--wal-id-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The units whose ids the file lists, one a line.",
    ),
    click.option(
        "--wal-id-range",
        metavar="FROM..TO",
        help="Ids from FROM on and before TO; either may be left out. Ids sort by data time.",
    ),
    click.option(
        "--message-id",
        "message_ids",
        multiple=True,
        metavar="ID",
        help="The units that this SNS or SQS message announced; repeatable.",
    ),
)
#: Conditions on what became of units, and how much is done with them.
_STATE_OPTIONS = (
    click.option(
        "--status",
        "statuses",
        multiple=True,
        metavar="STATUS",
        help="Only this status; repeatable. Default: failed, or any for units that are named.",
    ),
    click.option(
        "--error-code",
        "error_codes",
        multiple=True,
        metavar="CODE",
        help="Only units whose last error has this code; repeatable. A code that is not retried by "
        "itself is replayed only if it is named here.",
    ),
    click.option(
        "--attempts-min", type=click.IntRange(0), metavar="N", help="At least N attempts so far."
    ),
    click.option(
        "--attempts-max", type=click.IntRange(0), metavar="N", help="At most N attempts so far."
    ),
    click.option(
        "--include-succeeded",
        is_flag=True,
        help="Run succeeded units again too; needs an approved plan.",
    ),
    click.option(
        "--max-events",
        type=click.IntRange(1),
        metavar="N",
        help="Put at most N units to work; can only lower replay.max_events.",
    ),
)
_FILE_OPTIONS = (
    click.option(
        "--selection-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A saved selection (YAML or JSON), which the other options narrow.",
    ),
)


def selection_options(function: _Function) -> _Function:
    """Add all options of a selection; the command gets them as one value, `selected`."""
    return _with_options(function, (*_UNIT_OPTIONS, *_STATE_OPTIONS, *_FILE_OPTIONS))


def unit_options(function: _Function) -> _Function:
    """Add the options that say which units, whatever became of them; given as `selected` too."""
    return _with_options(function, (*_UNIT_OPTIONS, *_FILE_OPTIONS))


def _with_options(function: _Function, options: tuple[Callable[[Any], Any], ...]) -> _Function:
    @wraps(function)
    def command(*args: Any, **given: Any) -> Any:
        values = {name: given.pop(name, default) for name, default in _NOT_GIVEN.items()}
        return function(*args, selected=_selected(values), **given)

    for option in reversed(options):
        command = option(command)
    return command  # type: ignore[return-value]


def _defaults() -> dict[str, Any]:
    """Return what each option gives that nobody gave."""
    probe = click.Command("probe", callback=lambda: None)
    for option in (*_UNIT_OPTIONS, *_STATE_OPTIONS, *_FILE_OPTIONS):
        option(probe)
    with click.Context(probe) as context:
        return {each.name: each.process_value(context, None) for each in probe.params if each.name}


_NOT_GIVEN = _defaults()


def _selected(given: dict[str, Any]) -> Selected:
    named = {name: given[name] for name in given.keys() - {"selection_file", "wal_id_file"}}
    ids = (*given["wal_ids"], *_listed(given["wal_id_file"]))
    words = SelectionWords(**{**named, "wal_ids": ids})
    flags = selection_of(words, named=lambda name: f"--{name.replace('_', '-')}")
    file: Path | None = given["selection_file"]
    if file is None:
        return Selected(selection=flags, saved=None)
    try:
        return narrowed(file.read_bytes(), flags)
    except InvalidInput as exc:
        raise InvalidInput(f"{file}: {exc}", code=exc.code) from exc


def _listed(file: Path | None) -> tuple[str, ...]:
    """Return the ids of a file, one a line; blank lines and those that begin with # are none."""
    if file is None:
        return ()
    with file.open("rb") as opened:
        data = opened.read(_IDS_BYTES_MAX + 1)
    if len(data) > _IDS_BYTES_MAX:
        message = f"{file}: more than {_IDS_BYTES_MAX:,} bytes; choose by dataset and time"
        raise InvalidInput(message, code="selection_invalid")
    lines = (line.strip().lower() for line in data.decode(errors="replace").splitlines())
    ids = tuple(line for line in lines if line and not line.startswith("#"))
    if not ids:
        raise InvalidInput(f"{file} lists no id", code="selection_invalid")
    return ids
