"""What all commands share: the options of the group, the configuration, `--output`, examples."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.config import Config
    from tallgrass.setting_form import Value

#: Lines of a list that are asked for at once.
_PAGE_MAX = 1000
_AFTER = "Go on after the page that gave this cursor."
#: The largest number that a row can have: SQLite's integers have 64 bits.
NUMBER_MAX = 2**63 - 1

_Function = TypeVar("_Function", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A number within a range. `nan` is refused, which comparisons alone would let pass."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; refuse what cannot be counted with."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number to count with.", param, ctx)
        return number


@dataclass(kw_only=True)
class Invocation:
    """One call of the command, with what was said before the command's name."""

    config_file: Path | None
    database: str | None
    #: Settings that the command's own flags give.
    flags: "dict[str, Value]" = field(default_factory=dict)
    #: What the command takes where nobody says otherwise, in place of the common default.
    defaults: "dict[str, Value]" = field(default_factory=dict)

    @cached_property
    def config(self) -> "Config":
        """The configuration, read when a command first needs it."""
        from tallgrass.config import load_config  # noqa: PLC0415 - help needs no configuration

        before = {} if self.database is None else {"database.url": self.database}
        flags = {**before, **self.flags}
        return load_config(file=self.config_file, flags=flags, defaults=self.defaults)

    def use(self, flags: "Mapping[str, Value | None]") -> "Config":
        """Let options of a command count like those before its name; None means not given."""
        given = {key: value for key, value in flags.items() if value is not None}
        self.flags = {**self.flags, **given}
        self.__dict__.pop("config", None)
        return self.config

    @contextmanager
    def stores(self, *, read_only: bool) -> Iterator["Stores"]:
        """Open the configured database, whose schema must be this release's."""
        from tallgrass.bootstrap.stores import open_current_stores  # noqa: PLC0415 - loads the drivers

        stores = open_current_stores(self.config, read_only=read_only)
        try:
            yield stores
        finally:
            stores.close()

    def require_datasets(self, names: "Iterable[str]", stores: "Stores") -> None:
        """Refuse datasets that nobody knows: of a mistyped name, nothing would be shown.

        A dataset whose file is gone may have records still.
        """
        from tallgrass.bootstrap.datasets import open_catalogue  # noqa: PLC0415 - few commands ask
        from tallgrass.ledger.record_filter import RecordFilter  # noqa: PLC0415

        catalogue = open_catalogue(self.config)
        for name in names:
            if not stores.reader.page(RecordFilter(datasets=[name]), size=1).records:
                catalogue.named(name)


pass_invocation = click.make_pass_decorator(Invocation)


def output_option(function: _Function) -> _Function:
    """Add `--output table|json`; the command gets `as_json`."""
    return _output("table", "A table for people, or one JSON document.")(function)


def json_output_option(function: _Function) -> _Function:
    """Add the same to a command whose answer is made for programs."""
    return _output("json", "JSON, or a table for people.")(function)


def _output(default: str, told: str) -> Callable[[_Function], _Function]:
    return click.option(
        "--output",
        "as_json",
        type=click.Choice(["table", "json"]),
        default=default,
        show_default=True,
        callback=lambda _ctx, _param, value: value == "json",
        help=told,
    )


def limit_option(told: str) -> Callable[[_Function], _Function]:
    """Add `--limit` to a list."""
    return click.option(
        "--limit",
        type=click.IntRange(1, _PAGE_MAX),
        default=50,
        show_default=True,
        help=told,
    )


def page_options(noun: str) -> Callable[[_Function], _Function]:
    """Add `--limit` and `--after` to a list whose pages go on after a name or an id."""
    after = click.option("--after", metavar="CURSOR", help=_AFTER)
    return lambda function: limit_option(f"{noun} on a page.")(after(function))


def numbered_page_options(noun: str) -> Callable[[_Function], _Function]:
    """Add the same to a list whose pages go on after a number."""
    numbers = click.IntRange(0, NUMBER_MAX)
    after = click.option("--after", type=numbers, default=0, metavar="CURSOR", help=_AFTER)
    return lambda function: limit_option(f"{noun} on a page.")(after(function))


def examples(*lines: str) -> str:
    """Return the end of a help text, which click must not rewrap."""
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(["\b", title, *(f"  {line}" for line in lines)])
