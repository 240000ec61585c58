"""Write the generated parts of the documents, or check them.

    python -m tools.generate_docs            write
    python -m tools.generate_docs --check    say what differs; exit 1 if anything does

A generated part stands in a hand-written document between ``<!-- generated: NAME -->`` and
``<!-- end -->``. The schemas and the picture of the state machine are generated whole. The front
page, README.md, has figures of the last benchmark between ``<!-- bench -->`` and
``<!-- /bench -->``, and of the last proofs, from the page of reliability, between
``<!-- proof -->`` and ``<!-- /proof -->``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import TYPE_CHECKING

from tallgrass.ledger.record import WalAttempt, WalRecord, field_models
from tools import bench_page
from tools.conformance_list import ROOT
from tools.generated_parts import PARTS, state_machine_picture
from tools.proof_summary import proof_summary
from tools.record_schema import attempt_schema, record_schema
from tools.reliability import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCS = ROOT / "docs"

_PART = re.compile(
    r"^(?P<begin><!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(?P<end>^<!-- end -->$)",
    re.DOTALL | re.MULTILINE,
)
_BEGIN = re.compile(r"^<!-- generated:", re.MULTILINE)


class UnknownPart(ValueError):
    """A document asks for a part that nobody generates; the message says which."""


def main(arguments: list[str] | None = None, docs: Path = DOCS) -> int:
    """Write or check all documents."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate_docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what differs")
    check = parser.parse_args(arguments).check
    behind = list(outdated(docs))
    for path, text in behind:
        name = path.relative_to(docs.parent)
        if check:
            print(f"{name} is behind the code: run `python -m tools.generate_docs`")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if check and behind else 0


def outdated(docs: Path) -> Iterator[tuple[Path, str]]:
    """Yield each document that is not as it should be, with the text that it should have."""
    for path, text in wanted(docs):
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            yield path, text


def wanted(docs: Path) -> Iterator[tuple[Path, str]]:
    """Yield each document with generated parts, and the text that it should have."""
    for path in sorted(docs.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if _BEGIN.search(text):
            yield path, with_parts(text, str(path.relative_to(docs)))
    yield docs / "images" / "state-machine.svg", state_machine_picture()
    plot, readme = bench_page.plot(), docs.parent / "README.md"
    if plot is not None:
        yield docs / "reference" / bench_page.PLOT, plot
    if readme.is_file():
        yield readme, _front_page(readme.read_text(encoding="utf-8"), docs)
    schemas = docs / "reference" / "schemas"
    yield schemas / "wal-record.schema.json", _json(record_schema(field_models(WalRecord)))
    yield schemas / "wal-attempt.schema.json", _json(attempt_schema(field_models(WalAttempt)))


def _front_page(text: str, docs: Path) -> str:
    """Return the front page with the figures of the last proofs, and of the last full benchmark."""
    reliability = (docs / "reference" / "reliability.md").read_text(encoding="utf-8")
    text = replaced(text, "proof", proof_summary(reliability).rstrip())
    summary = bench_page.summary()
    return text if summary is None else replaced(text, "bench", summary.rstrip())


def with_parts(text: str, name: str) -> str:
    """Return a document's text with its generated parts renewed."""

    def renewed(match: re.Match[str]) -> str:
        render = PARTS.get(match["name"])
        if render is None:
            raise UnknownPart(f"{name}: nobody generates {match['name']!r}")
        body = render()
        return f"{match['begin']}{match['body'] if body is None else body}{match['end']}"

    if len(_PART.findall(text)) != len(_BEGIN.findall(text)):
        raise UnknownPart(f"{name}: a generated part has no end, or a name that cannot be one")
    return _PART.sub(renewed, text)


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
