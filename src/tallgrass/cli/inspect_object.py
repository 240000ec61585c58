"""``tallgrass inspect object``: what the pipeline would make of a file under a key."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import orjson

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.workers import open_file_reader
from tallgrass.cli.failures import ERROR
from tallgrass.cli.invocation import Invocation, examples, json_output_option, pass_invocation
from tallgrass.cli.tables import say, show_facts, show_table, status
from tallgrass.cli.text import print_json, printable
from tallgrass.clock import system_clock
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.datasets.key_report import RoutedKey, route_uri
from tallgrass.errors import InvalidInput
from tallgrass.evidence import grib2_index
from tallgrass.evidence.header import Seen, Verdict
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tallgrass.operators.issues import CheckReport
from tallgrass.operators.trial import try_unit

_INDEX = ".idx"
#: Offsets of an index that the table names.
_OFFSETS_SHOWN = 10


@click.command(
    name="object",
    epilog=examples(
        "tallgrass inspect object KDMX20250101_225441_V06 "
        "--key s3://unidata-nexrad-level2/2025/01/01/KDMX/KDMX20250101_225441_V06",
        "tallgrass inspect object rap.grib2 --output table "
        "--key s3://noaa-rap-pds/rap.20230910/rap.t00z.awp130pgrbf01.grib2",
    ),
)
@click.argument(
    "file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--key", "uri", metavar="URI", required=True, help="The object's address.")
@json_output_option
@click.pass_context
@pass_invocation
def object_command(
    invocation: Invocation, ctx: click.Context, file: Path, *, uri: str, as_json: bool
) -> None:
    """Read a file as the object of a key: evidence, checks, and the item that would be stored.

    The file is read as a worker reads an object, all checks and the item are the pipeline's own;
    size and etag count as announced. Of a GRIB2 file's index (.idx) the offsets are told, and
    compared with the file beside it if that is there. Ends with 1 if the file cannot be read; what
    the checks found is in the answer.
    """
    if not file.is_file():
        raise InvalidInput(f"{file} is no file")
    config = invocation.config
    routed = route_uri(open_catalogue(config), uri, config.rules.providers)
    if isinstance(routed.found, KeyMatch):
        answer, is_read = _inspect(file, routed, routed.found, config.rules)
    else:
        answer = {**_sidecar(file, routed.key), "ignored": routed.found.reason}
        is_read = True
    if as_json:
        print_json(answer)
    else:
        _show(answer, routed.object_uri)
    if not is_read:
        ctx.exit(ERROR)


def _inspect(
    file: Path, routed: RoutedKey, match: KeyMatch, rules: LedgerRules
) -> tuple[dict[str, Any], bool]:
    """Return the answer, and whether the file could be read."""
    unit = IngestUnit.of(
        dataset=match.dataset.id,
        object_uri=routed.object_uri,
        provider=routed.provider,
        queue="inspect",
        time_range_start=match.start,
        time_range_end=match.end,
        event=EventMetadata(event_time=system_clock()),
        object_ref=ObjectReference(),
        providers=rules.providers,
    )
    reader = open_file_reader(file, match.dataset)
    try:
        (reading,) = reader.read([unit])
    finally:
        reader.close()
    if isinstance(reading, Evidence):
        announced = ObjectReference(etag=reading.etag, size=reading.size)
        unit = replace(unit, object_ref=announced)
    trial = try_unit(unit, match, reading, rules)
    answer: dict[str, Any] = {
        "evidence": None if isinstance(reading, ReadFailure) else _evidence(reading),
        "integrity": _report(trial.integrity),
        "metadata": _report(trial.metadata),
        "item": None if trial.item is None else orjson.loads(trial.item),
    }
    return answer, isinstance(reading, Evidence)


def _evidence(reading: Evidence) -> dict[str, Any]:
    """Return what the ledger would keep of the read."""
    kept: dict[str, Any] = orjson.loads(reading.to_bytes())
    return kept


def _report(report: CheckReport) -> dict[str, object]:
    return {
        "status": report.status.value,
        "checks_run": report.checks_run,
        "issues": report.issues,
    }


def _sidecar(file: Path, key: str) -> dict[str, Any]:
    """Return what a file beside an object tells: of an index its offsets, of others nothing."""
    nothing = {"evidence": None, "integrity": None, "metadata": None, "item": None}
    if not key.endswith(_INDEX):
        return nothing
    with file.open("rb") as stream:
        content = stream.read(grib2_index.INDEX_BYTES_MAX + 1)
    if len(content) > grib2_index.INDEX_BYTES_MAX:
        raise InvalidInput(f"{file} is too large for an index")
    beside = file.with_name(file.name.removesuffix(_INDEX))
    if beside != file and beside.is_file():
        header, issues = _compared(content, beside)
    else:
        header, issues = grib2_index.read_header(content)
    evidence = Evidence(
        etag=hashlib.md5(content, usedforsecurity=False).hexdigest(),
        size=len(content),
        source="object",
        header=header,
        issues=issues,
    )
    return {**nothing, "evidence": _evidence(evidence)}


def _compared(index: bytes, grib2: Path) -> Verdict:
    """Read an index, and look in its file whether messages begin where it says."""
    with grib2.open("rb") as stream:

        def at(start: int, length: int) -> bytes:
            stream.seek(start)
            return stream.read(length)

        return grib2_index.read_header(index, Seen(b"", b"", grib2.stat().st_size, at))


def _show(answer: dict[str, Any], uri: str) -> None:
    evidence = answer["evidence"] or {}
    facts = [("size", evidence.get("size")), ("etag", evidence.get("etag"))]
    facts += [(name, _told(value)) for name, value in evidence.get("header", {}).items()]
    if "ignored" in answer:
        facts.append(("ignored", answer["ignored"]))
    show_facts(facts, title=printable(uri))
    for operator in ("integrity", "metadata"):
        report = answer[operator]
        if report is not None:
            show_facts([(operator, status(report["status"]))])
    issues = [
        (operator, found.code, found.severity.value, found.message)
        for operator in ("integrity", "metadata")
        for found in (answer[operator] or {"issues": ()})["issues"]
    ]
    if issues:
        show_table(("check", "code", "severity", "why"), issues, wide=("why",))
    item = answer["item"]
    if item is not None:
        facts = [(name, _told(value)) for name, value in item["properties"].items()]
        show_facts([("bbox", _told(item.get("bbox"))), *facts], title=f"Item {item['id']}")
    elif "ignored" not in answer:
        say("No item would be stored.", "yellow")


def _told(value: Any) -> str | int | float | None:
    if isinstance(value, list) and len(value) > _OFFSETS_SHOWN:
        return f"{orjson.dumps(value[:_OFFSETS_SHOWN]).decode()[:-1]},… {len(value)} in all]"
    if isinstance(value, list | dict | bool):
        return orjson.dumps(value).decode()
    return value if isinstance(value, int | float) or value is None else str(value)
