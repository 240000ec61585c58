"""Hostile input that is kept in this folder, each case with what must come of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import InvalidInput, TallgrassError
from tallgrass.intake.strict_json import load_strict
from tallgrass.nodes import NodeRunner
from tallgrass.nodes.cache_store import FolderCache
from tallgrass.nodes.entries import Entry
from tallgrass.nodes.identity import file_name_of, id_of_file_name
from tallgrass.replay.selection_file import parse_selection
from tallgrass.replay.strict_yaml import load_yaml
from tests.corpora.reading import HERE, cases, written
from tests.documents.markdown import rows

if TYPE_CHECKING:
    from pathlib import Path

NAMES = cases("names.toml", "name")
PROGRAMS = cases("pickles.toml", "program")


def given(case: dict[str, Any]) -> str:
    """Return the id of a case."""
    return written(case["given"], case.get("times", 1))


@pytest.mark.parametrize("case", NAMES, ids=range(len(NAMES)))
def test_an_id_has_its_one_folder_or_none(case: dict[str, Any]) -> None:
    """The folder's name is the one of the file, leads nowhere else, and tells the id again."""
    if case.get("refused"):
        with pytest.raises(InvalidInput) as refused:
            file_name_of(given(case))
        assert refused.value.code == "node_id_invalid"
        return
    folder = case["folder"] * int(case.get("times", 1))
    assert file_name_of(given(case)) == folder
    assert id_of_file_name(folder) == given(case)


def test_the_names_are_many_and_no_two_share_a_folder() -> None:
    """At least eighty; those that get a folder get different ones, also where case is ignored."""
    assert len(NAMES) >= 80
    folders = [case["folder"] * int(case.get("times", 1)) for case in NAMES if "folder" in case]
    assert len(set(folders)) == len(folders)
    assert all(re.fullmatch(r"[A-Za-z0-9%][A-Za-z0-9._%-]*", folder) for folder in folders)


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    """The file that a program of the corpus would make."""
    return tmp_path / "owned"


def program(case: dict[str, Any], owned: Path) -> bytes:
    """Return the bytes of a case."""
    # Latin-1: the file's characters stand for bytes.
    return str(case["text"]).replace("PATH", str(owned)).encode("latin-1")


@pytest.mark.parametrize("case", PROGRAMS, ids=[case["name"] for case in PROGRAMS])
def test_a_program_in_the_place_of_data_is_never_run(case: dict[str, Any], owned: Path) -> None:
    """Readers of journals, messages, plans and selections refuse it, or take it for plain data."""
    data = program(case, owned)
    for read in (Entry.read, load_strict, load_yaml, parse_selection):
        try:
            read(data)
        except TallgrassError as error:
            assert error.code  # noqa: PT017 - either is right
    assert not owned.exists()


@pytest.mark.parametrize("case", PROGRAMS, ids=[case["name"] for case in PROGRAMS])
def test_a_program_in_the_cache_is_a_miss(
    case: dict[str, Any], owned: Path, tmp_path: Path
) -> None:
    """A cache entry that somebody put a program into is not used: the node runs again."""
    calls: list[int] = []

    def node(state: dict[str, int]) -> dict[str, int]:
        calls.append(1)
        return {"x": state["x"] + 1}

    def once(run_id: str) -> Any:
        cache = FolderCache(tmp_path / "cache")
        with NodeRunner(tmp_path / run_id, run_id=run_id, cache=cache) as runner:
            return runner.run(node_id="add", code_version="1", inputs={"x": 1}, exec_fn=node)

    assert once("first") == {"x": 2}
    assert once("second") == {"x": 2}
    assert calls == [1]  # the premise: the cache is in use
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    for path in files:
        path.write_bytes(program(case, owned))
    assert once("third") == {"x": 2}
    assert calls == [1, 1]
    assert not owned.exists()


def test_the_index_names_all_files_and_who_reads_them() -> None:
    """Every path of the table exists, every file here is in it, and the named tests read it."""
    root = HERE.parents[1]
    table = rows((HERE / "README.md").read_text(encoding="utf-8"))
    assert len(table) >= 13
    named = set()
    for _, where, tested in table:
        [name] = re.findall(r"`([a-z_/.]+\.(?:toml|jsonl))`", where)
        path = root / name if "/" in name else HERE / name
        assert path.is_file(), name
        named.add(path)
        for test in re.findall(r"`(tests/[a-z_/]+\.py)`", tested):
            text = (root / test).read_text(encoding="utf-8")
            reader = "sns_corpus" if path.name == "sns_hostile.toml" else path.name
            assert reader in text, (test, name)
    assert {path for path in HERE.iterdir() if path.suffix in {".toml", ".jsonl"}} <= named
