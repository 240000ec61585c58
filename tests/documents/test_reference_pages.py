"""Pages that are written from lists: requirements and their tests, datasets, the state machine."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from inspect import isclass, isroutine
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tallgrass.telemetry.names import METRICS
from tests.documents.markdown import DOCS, ROOT, read, rows, section, words
from tests.documents.test_generated import LEGAL
from tests.plugins.conformance import ids_of
from tests.repository.test_conformance_markers import marked_ids
from tools.conformance_list import load_conformance_list
from tools.conformance_page import document_part
from tools.library_page import public_names
from tools.marked_tests import ids_to_tests, marked_tests

if TYPE_CHECKING:
    from pathlib import Path

TESTS = ROOT / "tests"
PAGE = read(DOCS / "reference" / "conformance.md")
SVG = "{http://www.w3.org/2000/svg}"


def listed() -> dict[str, list[str]]:
    """Return the tests that the page lists for each id, in its order."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^\*\*(?=[A-Z]+-)", PAGE, flags=re.MULTILINE)[1:]:
        name = part.partition("**")[0]
        assert name not in found
        found[name] = re.findall(r"^- `(.*::.*)`$", part, re.MULTILINE)
    return found


def test_the_page_lists_every_requirement_with_its_words_and_tests() -> None:
    """Each id of the list is there once, with its text, and with a test or a waiver."""
    found = listed()
    requirements = load_conformance_list().requirements
    assert found.keys() == requirements.keys()
    for name, requirement in requirements.items():
        assert f"**{name}** {requirement.requirement} *(" in PAGE
        assert found[name] or requirement.waived, name


def test_every_mark_is_some_tests() -> None:
    """What a file's marks name, found by another reading, its tests carry; the page says so."""
    by_file: dict[str, set[str]] = {}
    for name, tests in listed().items():
        for test in tests:
            by_file.setdefault(test.partition("::")[0], set()).add(name)
    for path in sorted(TESTS.rglob("test_*.py")):
        place = path.relative_to(TESTS).as_posix()
        assert by_file.get(place, set()) == set(marked_ids(path)), place


def test_marks_are_read_as_pytest_reads_them(request: pytest.FixtureRequest) -> None:
    """Every test that this run collected is listed under just the ids that pytest gives it."""
    listed_for: dict[str, set[str]] = {}
    for name, tests in listed().items():
        for test in tests:
            listed_for.setdefault(f"tests/{test}", set()).add(name)
    collected: dict[str, set[str]] = {}
    for item in request.session.items:
        collected.setdefault(item.nodeid.partition("[")[0], set()).update(ids_of(item))
    assert {test: listed_for.get(test, set()) for test in collected} == collected


def test_marks_of_classes_names_and_parameters_count() -> None:
    """A test carries what stands above it, above its class, or behind a name."""
    source = """
NAMED = pytest.mark.conformance("A-1", "A-2")
ROWS = [pytest.param(1, marks=pytest.mark.conformance("A-3"))]

@NAMED
def test_named(): ...

@pytest.mark.parametrize("n", ROWS)
async def test_rows(n): ...

@pytest.mark.conformance("A-4")
class TestIt:
    @pytest.mark.conformance("A-5")
    def test_inner(self): ...

@NAMED
def helper(): ...

def test_none(): ...
"""
    assert list(marked_tests(source)) == [
        ("test_named", ("A-1", "A-2")),
        ("test_rows", ("A-3",)),
        ("TestIt::test_inner", ("A-5", "A-4")),
    ]


def test_tests_are_found_below_folders(tmp_path: Path) -> None:
    """The place of a test is told from the folder of all tests; other files are not looked at."""
    (tmp_path / "deep").mkdir()
    text = '@pytest.mark.conformance("A-1")\ndef test_one(): ...\n'
    for name in ("deep/test_a.py", "test_b.py", "scene.py"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert ids_to_tests(tmp_path) == {"A-1": ["deep/test_a.py::test_one", "test_b.py::test_one"]}


def test_kinds_and_faults_are_told() -> None:
    """A requirement says how it is shown, and by how many planted faults its tests were tried."""
    faults = tomllib.loads(read(TESTS / "faults.toml"))["fault"]
    number = sum("WAL-1.2" in fault["ids"] for fault in faults)
    assert number
    line = next(x for x in document_part("WAL").splitlines() if x.startswith("**WAL-1.2**"))
    assert line.endswith(f"*(crash or fault; planted faults: {number})*")


def test_every_dataset_file_has_its_line() -> None:
    """Each file is listed once, under whether its keys are read, with its buckets and topics."""
    text = read(DOCS / "reference" / "datasets.md")
    tables = {
        heading: rows(section(text, heading)) for heading in ("Keys are read", "Keys are not read")
    }
    lines = {words(row[0])[0]: (head, row) for head, table in tables.items() for row in table}
    files = sorted((ROOT / "src" / "tallgrass" / "datasets" / "files").glob("*.toml"))
    assert len(files) == len(lines) == sum(map(len, tables.values()))
    for path in files:
        raw = tomllib.loads(read(path))
        heading, row = lines[raw["id"]]
        assert heading == (
            "Keys are read"
            if "pattern" in raw.get("key", {}) or "layouts" in raw.get("key", {})
            else "Keys are not read"
        ), raw["id"]
        assert row[1] == raw["title"]
        assert words(row[2])[: len(raw["buckets"])] == raw["buckets"]
        assert len(words(row[3])) == len(raw.get("topics", ()))
        assert all(
            topic.endswith(word)
            for topic, word in zip(raw.get("topics", ()), words(row[3]), strict=True)
        )


@pytest.mark.conformance("SM-9.5")
def test_the_picture_shows_the_seven_edges() -> None:
    """It draws each legal edge with its number, each status once, and names nothing elsewhere."""
    picture = ET.fromstring(read(DOCS / "images" / "state-machine.svg"))  # noqa: S314 - our own picture
    edges = [group for group in picture.iter(f"{SVG}g") if "data-edge" in group.attrib]
    assert [tuple(group.attrib["data-edge"].split()) for group in edges] == LEGAL
    assert [group.findtext(f"{SVG}text") for group in edges] == [str(n) for n in range(1, 8)]
    boxes = [text.text for text in picture.findall(f"{SVG}text")]
    assert sorted(filter(None, boxes)) == sorted({status for _, status in LEGAL})


@pytest.mark.parametrize(
    "path", sorted((DOCS / "images").glob("*.svg")), ids=lambda path: path.name
)
def test_pictures_need_nothing_from_elsewhere(path: Path) -> None:
    """A picture has a title for those who cannot see it, no address and no script."""
    picture = ET.fromstring(read(path))  # noqa: S314 - our own picture
    assert picture.findtext(f"{SVG}title")
    text = read(path).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"http|<script|<image|@import|href", text)


def test_tests_that_the_promises_name_are_there() -> None:
    """Each promise names tests, and these exist."""
    text = read(DOCS / "concepts" / "promises.md")
    promises = re.findall(r"^## \d\. .*?(?=^## )", text, re.DOTALL | re.MULTILINE)
    assert len(promises) == 7
    for promise in promises:
        named = [word for word in words(promise) if word.startswith("tests/")]
        assert named
        assert [name for name in named if not (ROOT / name).is_file()] == []


def test_every_public_name_is_documented() -> None:
    """Each has a docstring that says what it is, and stands in the page under its module."""
    page = read(DOCS / "reference" / "library.md")
    found = list(public_names())
    assert len(found) > 50
    for module, name, value in found:
        line = next(x for x in section(page, module).splitlines() if x.startswith(f"| `{name}` |"))
        if callable(value):
            # A dataclass without a docstring of its own gets its signature as one.
            assert value.__doc__, name
            assert not value.__doc__.startswith(f"{name}("), name
            assert value.__doc__.split()[0] in line


def test_every_name_that_is_exported_has_a_docstring() -> None:
    """What any module lists in `__all__` says what it is."""
    package = ROOT / "src" / "tallgrass"
    checked = 0
    for path in sorted(package.rglob("*.py")):
        if not re.search(r"^__all__ = ", read(path), re.MULTILINE):
            continue
        parts = path.relative_to(package.parent).with_suffix("").parts
        module = import_module(".".join(parts).removesuffix(".__init__"))
        for name in module.__all__:
            value = getattr(module, name)
            if isclass(value) or isroutine(value):  # not aliases of types, not constants
                assert value.__doc__, f"{module.__name__}.{name}"
                checked += 1
    assert checked > 60


def test_names_elsewhere_lead_to_names_here() -> None:
    """What other suites call otherwise is a metric of ours; none of their names is one."""
    table = rows(section(read(DOCS / "reference" / "telemetry.md"), "Names elsewhere"))
    assert len(table) == 7
    for there, here in table:
        assert words(there)[0] not in METRICS
        assert words(here)
        assert set(words(here)) <= METRICS.keys()
