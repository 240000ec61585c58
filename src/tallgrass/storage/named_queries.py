"""Named SQL blocks and how each database wants their parameters.

A block begins with ``-- name: verb_rows(once, per, batch; of, each, row)``: parameters before the
semicolon are given once, those after it for every row of a `write`. In SQL both are ``:parameter``
on SQLite; PostgreSQL gets all rows of a batch as one JSON parameter, the table ``each_row``.
What several blocks of a file say is written once, as ``-- part: name``, and stands as ``{name}``.
The two databases declare the same names with the same parameters; ``lock_…`` is PostgreSQL's alone.
What both say alike stands in ``queries/both/``, where a file may use the parts of each database's
own file of that name.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_HEADER = re.compile(r"^-- (?:part: (\w+)|name: (\w+)\(([^;)]*)(?:;([^)]*))?\))$", re.MULTILINE)
_PART = re.compile(r"\{(\w+)\}")
#: Types of row parameters on PostgreSQL that are not text.
_COLUMN_TYPES = {
    "integer": "version attempt_no budget_from claimed_version closed_version applied_attempt "
    "lease_expiries from_version to_version attempts attempt row_number",
    "bigint": "object_size position entry_id body_bytes poison_id span_id",
    "uuid": "wal_id worker_incarnation claim_id commit_id outbox_id claimed_by row_id",
    "boolean": "duplicate mismatch",
    "double precision": "west south east north",
    "timestamptz": "event_time time_range_start time_range_end due_at retry_after last_attempt_at "
    "created_at updated_at claimed_at closed_at occurred_at noted_at start_at end_at "
    "datetime_at expires_at",
}
_TYPE_OF = {name: kind for kind, names in _COLUMN_TYPES.items() for name in names.split()}

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Query:
    """One named statement in a database's own parameter style."""

    name: str
    sql: str
    once: tuple[str, ...]
    each: tuple[str, ...]


@cache
def load_queries(schema: str) -> dict[str, Query]:
    """Return all named statements of a schema: a folder whose name begins with the dialect."""
    queries: dict[str, Query] = {}
    parts: dict[str, dict[str, str]] = {}
    dialect = schema.partition("_")[0]
    folders = (schema, "both") if schema == dialect else (schema,)
    for source in (each for folder in folders for each in _sources(folder)):
        known = parts.setdefault(source.name, {})
        for query in parse(source.read_text(encoding="utf-8"), dialect, known):
            if query.name in queries:
                raise ValueError(f"query {query.name} is defined twice for {schema}")
            queries[query.name] = query
    return queries


def _sources(folder: str) -> list[Traversable]:
    found = files("tallgrass.storage").joinpath("queries").joinpath(folder).iterdir()
    return sorted(found, key=lambda source: source.name)


def parse(text: str, dialect: str, parts: dict[str, str]) -> list[Query]:
    """Cut a file into its named statements and translate their parameters.

    `parts` are those that are known already; the file's own are added to them.
    """
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    translate = _numbered if dialect == "sqlite" else _pyformat
    queries = []
    for header, end in zip(headers, ends, strict=True):
        part, name, *parameters = header.groups()
        body = re.sub(r"^\s*--.*\n", "", text[header.end() : end], flags=re.MULTILINE).strip()
        body = _PART.sub(lambda match: parts[match[1]], body)
        if part is not None:
            parts[part] = body
            continue
        once, each = (_names(given) for given in parameters)
        queries.append(Query(name, translate(body, once, each), once, each))
    return queries


def _names(part: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (part or "").split(",") if name.strip())


def _numbered(sql: str, once: tuple[str, ...], each: tuple[str, ...]) -> str:
    """``:name`` → ``?3``: `executemany` takes the tuple (*once, *each) as it is."""
    places = {name: f"?{index}" for index, name in enumerate((*once, *each), start=1)}
    return _PARAMETER.sub(lambda match: places[match[1]], sql)


def _pyformat(sql: str, once: tuple[str, ...], each: tuple[str, ...]) -> str:
    """``:name`` → ``%(name)s``; ``each_row`` → the rows of the batch, from one JSON parameter."""
    columns = ", ".join(f"{name} {_TYPE_OF.get(name, 'text')}" for name in each)
    sql = sql.replace("%", "%%").replace(
        "each_row AS x", f"json_to_recordset(:rows::json) AS x ({columns})"
    )
    known = {*once, "rows"} if each else {*once}

    def place(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise KeyError(match[1])
        return f"%({match[1]})s"

    return _PARAMETER.sub(place, sql)
