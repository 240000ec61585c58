"""`tallgrass stac` as a real process, on both databases: export, validate, serve, refresh."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pystac
import pytest

from tallgrass.cli.whole_files import appearing_folder
from tallgrass.errors import Refused
from tests.cli.command import PROGRAM, environment, tallgrass
from tests.pipeline.scene import Pipeline, things
from tests.stac.schemas import folder
from tests.support.catalog import HOUR, NOON, Known, write_catalog
from tests.web.scene import ITEMS
from tests.web.serving import serving

if TYPE_CHECKING:
    from tests.support.backends import Backend


@pytest.fixture
def catalog(backend: Backend) -> Backend:
    """A database with the known items."""
    write_catalog(backend, ITEMS)
    return backend


def ids_of(lines: str) -> list[str]:
    """Return the ids of items, one a line."""
    return [json.loads(line)["id"] for line in lines.splitlines()]


# --- export ---------------------------------------------------------------------------------------


def test_a_static_catalog_is_written_and_replaced(catalog: Backend, tmp_path: Path) -> None:
    """A folder that is there is left alone; with --replace only an earlier export gives way."""
    target = tmp_path / "deep" / "catalog"
    asked = ("stac", "export", "--format", "static", "--dir", str(target))
    done = tallgrass(*asked, "--output", "json", at=catalog)
    assert done.json == {
        "format": "static", "target": str(target), "items": 7, "collections": 3, "files": 24,
    }  # fmt: skip
    root = pystac.Catalog.from_file(str(target / "catalog.json"))
    assert {item.id for item in root.get_items(recursive=True)} == {item.id for item in ITEMS}
    assert (target / "goes-glm" / "2026" / "152" / "glm-1.json").is_file()
    again = tallgrass(*asked, "--output", "json", at=catalog)
    assert (again.code, again.error["code"]) == (3, "export_target_in_use")
    (target / "mark").touch()
    assert tallgrass(*asked, "--replace", at=catalog).out == (
        f"{target}: 7 items of 3 collections\n"
    )
    assert not (target / "mark").exists()
    (target / "catalog.json").write_text('{"of":"somebody else"}')
    assert tallgrass(*asked, "--replace", at=catalog).code == 3
    assert [path.name for path in target.parent.iterdir()] == ["catalog"]


def test_filters_and_formats(catalog: Backend, tmp_path: Path) -> None:
    """Each filter leaves something out; lines go to standard output or to a file."""
    lines = ("stac", "export", "--format", "ndjson", "--file")
    everything = tallgrass(*lines, "-", at=catalog)
    assert ids_of(everything.out) == sorted(item.id for item in ITEMS)
    assert everything.out.encode().splitlines()[0] == ITEMS[0].body()
    assert everything.err == "-: 7 items\n"
    chosen = tallgrass(
        *lines, "-", "--collection", "hrrr", "--collection", "goes-glm",
        "--bbox", "-102,37,-94.6,40", "--datetime", "2026-06-01T12:10:00Z/..", at=catalog,
    )  # fmt: skip
    assert ids_of(chosen.out) == ["glm-1", "hrrr-1", "hrrr-2"]
    parquet = tmp_path / "items.parquet"
    done = tallgrass(
        "stac", "export", "--format", "geoparquet", "--file", str(parquet), "--bbox",
        "179,-5,-179,5", "--output", "json", at=catalog,
    )  # fmt: skip
    assert done.json["items"] == 1
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT id, bbox.xmin FROM '{parquet}'").fetchall()
    assert found == [("glm-2", 170.0)]


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--format", "static"], "invalid_input"),
        (["--format", "static", "--file", "x"], "invalid_input"),
        (["--format", "ndjson", "--dir", "x"], "invalid_input"),
        (["--format", "geoparquet", "--file", "-"], "invalid_input"),
        (["--dir", "x", "--bbox", "1,2,3"], "invalid_input"),
        (["--dir", "x", "--bbox", "a,b,c,d"], "invalid_input"),
        (["--dir", "x", "--datetime", "2026"], "invalid_input"),
        (["--dir", "x", "--datetime", "2026-02-30"], "invalid_time"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    catalog: Backend, tmp_path: Path, flags: list[str], code: str
) -> None:
    """Bad arguments end with 2 and leave no trace."""
    before = sorted(tmp_path.iterdir())
    done = tallgrass("stac", "export", *flags, "--output", "json", at=catalog, cwd=tmp_path)
    assert (done.code, done.error["code"]) == (2, code)
    assert sorted(tmp_path.iterdir()) == before
    assert "poison" not in done.error["remedy"]


@pytest.mark.parametrize(("form", "option"), [("static", "--dir"), ("ndjson", "--file")])
def test_an_export_without_a_place_is_asked_for_one(form: str, option: str) -> None:
    """The option that is missing is named, and none that nobody gave."""
    done = tallgrass("stac", "export", "--format", form, at="sqlite:////no/where.db")
    assert done.code == 2
    assert f"error: say where --format {form} goes to: {option}\n" in done.err


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "verb", [["export", "--dir", "x"], ["validate"]], ids=["export", "validate"]
)
def test_a_collection_that_is_not_there_is_answered_with_the_nearest(
    catalog: Backend, tmp_path: Path, verb: list[str]
) -> None:
    """A mistyped name is no empty result; one of a dataset that has no items yet is."""
    done = tallgrass("stac", *verb, "--collection", "hrr", at=catalog, cwd=tmp_path)
    assert done.code == 2
    assert "there is no collection 'hrr'; did you mean 'hrrr'?" in done.err
    assert not (tmp_path / "x").exists()
    empty = tallgrass("stac", *verb, "--collection", "ndfd", at=catalog, cwd=tmp_path)
    assert empty.code == 0, empty.err


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("umask", [0o022, 0o027])
def test_who_may_read_an_export_is_up_to_the_umask(
    catalog: Backend, tmp_path: Path, umask: int
) -> None:
    """A file, and a folder, as any other program would make them."""
    file, target = tmp_path / "items.ndjson", tmp_path / "catalog"
    tallgrass("stac", "export", "--format", "ndjson", "--file", str(file), at=catalog, umask=umask)
    tallgrass("stac", "export", "--dir", str(target), at=catalog, umask=umask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask
    assert target.stat().st_mode & 0o777 == 0o777 & ~umask
    assert (target / "catalog.json").stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_date_is_its_whole_day(catalog: Backend) -> None:
    """A date alone, first or last of a range gives what its instants give."""
    lines = ("stac", "export", "--format", "ndjson", "--file", "-", "--datetime")
    for date, instants in (
        ("2026-06-01", "2026-06-01T00:00:00Z/2026-06-01T23:59:59.999999Z"),
        ("2026-06-01/..", "2026-06-01T00:00:00Z/.."),
        ("../2026-05-31", "../2026-05-31T23:59:59.999999Z"),
        ("2026-06-01/2026-06-02", "2026-06-01T00:00:00Z/2026-06-02T23:59:59.999999Z"),
    ):
        found = tallgrass(*lines, date, at=catalog)
        assert found.code == 0, found.err
        assert found.out == tallgrass(*lines, instants, at=catalog).out
    assert ids_of(tallgrass(*lines, "2026-06-01", at=catalog).out)
    assert tallgrass(*lines, "2020-01-01/2020-01-02", at=catalog).out == ""


def test_half_an_export_leaves_nothing(tmp_path: Path) -> None:
    """What breaks in between, or meets a folder that came meanwhile, is as if it never began."""
    target = tmp_path / "out"

    def broken() -> None:
        with appearing_folder(target, replace=lambda _: False) as half:
            (half / "catalog.json").write_text("{}")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert list(tmp_path.iterdir()) == []

    def meanwhile() -> None:
        with appearing_folder(target, replace=lambda _: False):
            target.mkdir()
            (target / "theirs").touch()

    with pytest.raises(Refused):
        meanwhile()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "theirs"]


def test_an_export_that_cannot_take_its_place_puts_the_old_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog that was there is there again, whole, if the new one cannot be put there."""
    target = tmp_path / "out"
    target.mkdir()
    (target / "catalog.json").write_text("old")
    move = Path.replace

    def refused(self: Path, to: Path) -> Path:
        if to == target and (self / "catalog.json").read_text() == "new":
            raise PermissionError(str(to))
        return move(self, to)

    monkeypatch.setattr(Path, "replace", refused)

    def replaced() -> None:
        with appearing_folder(target, replace=lambda _: True) as half:
            (half / "catalog.json").write_text("new")

    with pytest.raises(PermissionError):
        replaced()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "catalog.json"]
    assert (target / "catalog.json").read_text() == "old"


# --- validate -------------------------------------------------------------------------------------


def test_the_catalog_itself_is_judged(backend: Backend, tmp_path: Path) -> None:
    """Items of the pipeline are valid by core and all extensions; an edited one is not."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(6))
    pipeline.drain()
    schemas = ("--schemas", str(folder() / "stac"), "--cache", str(tmp_path / "cache"))
    done = tallgrass("stac", "validate", *schemas, "--output", "json", at=backend)
    assert done.code == 0, done.out
    assert done.json == {
        "checked": 6, "valid": 6, "invalid": 0, "unchecked": 0, "missing_schemas": {},
        "problems": [],
    }  # fmt: skip
    without = tallgrass("stac", "validate", *schemas[2:], "--output", "json", at=backend)
    assert without.code == 1
    assert (without.json["valid"], without.json["unchecked"]) == (0, 6)
    assert (
        without.json["missing_schemas"]["https://stac-extensions.github.io/file/v2.1.0/schema.json"]
        == 6
    )
    body = backend.sql("SELECT body FROM stac_items WHERE collection_id = 'hrrr'")[0][0]
    broken = json.loads(body) | {"bbox": [1, 2, 3]}
    backend.sql(
        "UPDATE stac_items SET body = ? WHERE body = ?", json.dumps(broken).encode(), bytes(body)
    )
    found = tallgrass("stac", "validate", *schemas, "--output", "json", at=backend)
    assert (found.code, found.json["invalid"]) == (1, 1)
    assert found.json["problems"][0]["document"] == f"hrrr/{broken['id']}"
    assert "/bbox" in {each["path"] for each in found.json["problems"]}
    of_one = tallgrass("stac", "validate", *schemas, "--collection", "goes-glm", at=backend)
    assert of_one.out == "2 documents: 2 valid, 0 invalid, 0 not judged\n"


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_files_and_folders_are_judged(catalog: Backend, tmp_path: Path) -> None:
    """A static export is valid; files of lines and of features too; what is no JSON is told."""
    export = ("stac", "export", "--dir", str(tmp_path / "out"), "--collection", "goes-glm")
    assert tallgrass(*export, at=catalog).code == 0
    cache = ("--cache", str(tmp_path / "none"), "--schemas", str(folder() / "stac"))
    found = tallgrass("stac", "validate", str(tmp_path / "out"), *cache, "--output", "json")
    # root, collection, year and day; three items
    assert (found.code, found.json["checked"], found.json["valid"]) == (0, 7, 7), found.out
    lines = tmp_path / "items.ndjson"
    lines.write_bytes(ITEMS[0].body() + b"\n\n{\n")
    features = tmp_path / "page.json"
    page = {"type": "FeatureCollection", "features": [item.document() for item in ITEMS[:3]]}
    features.write_text(json.dumps(page))
    done = tallgrass("stac", "validate", str(lines), str(features), *cache)
    assert done.code == 1
    assert f"{lines}:3 /: not JSON" in done.out
    assert done.out.endswith("5 documents: 4 valid, 1 invalid, 0 not judged\n")
    both = tallgrass("stac", "validate", str(lines), "--collection", "x", "--output", "json")
    assert (both.code, both.error["code"]) == (2, "invalid_input")
    (tmp_path / "empty").mkdir()
    nothing = tallgrass("stac", "validate", str(tmp_path / "empty"))
    assert nothing.code == 2
    assert "nothing was checked" in nothing.err


def test_a_missing_schema_is_told_and_fetched_only_when_asked(tmp_path: Path) -> None:
    """Without --fetch nobody is asked; with it, only over https, and a failure has a code."""
    asked: list[str] = []

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Door) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/own/schema.json"
        file = tmp_path / "item.json"
        file.write_text(json.dumps(ITEMS[0].document() | {"stac_extensions": [address]}))
        asking = ("stac", "validate", str(file), "--cache", str(tmp_path / "cache"))
        plain = tallgrass(*asking)
        assert plain.code == 1
        assert f"schema missing: {address} (1 documents could not be judged)" in plain.out
        assert "--fetch" in plain.out
        refused = tallgrass(*asking, "--fetch", "--output", "json")
        assert (refused.code, refused.error["code"]) == (2, "stac_schema_missing")
        assert "only https" in refused.error["message"]
        server.shutdown()
    assert asked == []


# --- collections refresh and serve ----------------------------------------------------------------


def test_refresh_renews_what_collections_tell(backend: Backend, tmp_path: Path) -> None:
    """Extents and values come from the items; the second time nothing changes."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(12))
    pipeline.drain()
    asked = ("stac", "collections", "refresh", "--output", "json")
    first = tallgrass(*asked, at=backend).json
    assert first["collections"] >= 90
    assert first["changed"] == 3
    assert tallgrass(*asked, at=backend).json["changed"] == 0
    body = backend.sql("SELECT body FROM stac_collections WHERE collection_id = 'goes-glm'")[0][0]
    document = json.loads(body)
    rows = backend.sql(
        "SELECT min(start_at), max(end_at) FROM stac_items WHERE collection_id = 'goes-glm'"
    )
    assert document["extent"]["temporal"]["interval"] == [list(rows[0])]
    items = [
        json.loads(row[0])
        for row in backend.sql("SELECT body FROM stac_items WHERE collection_id = 'goes-glm'")
    ]
    platforms = sorted({item["properties"]["platform"] for item in items})
    assert document["summaries"]["platform"] == platforms
    schemas = ("--schemas", str(folder() / "stac"), "--cache", str(tmp_path / "cache"))
    judged = tallgrass("stac", "validate", *schemas, "--output", "json", at=backend)
    assert judged.json["problems"] == []
    assert judged.json["invalid"] == 0
    write_catalog(backend, [Known(id="later", box=(0.0, 0.0, 1.0, 1.0), at=NOON + 99 * HOUR)])
    changed = tallgrass("stac", "collections", "refresh", at=backend)
    assert changed.out.endswith("1 of them changed.\n")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_an_address_that_is_taken_is_told(catalog: Backend) -> None:
    """It is known before anything is served."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        asked = [*PROGRAM, "--database", catalog.url, "stac", "serve", "--port", port]
        done = subprocess.run(
            asked, check=False, capture_output=True, text=True, env=environment(), timeout=60
        )
    assert done.returncode == 2
    assert "cannot listen at 127.0.0.1" in done.stderr
    assert "cannot_listen" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_host_is_where_it_answers(catalog: Backend) -> None:
    """--host names the address; links follow it; SIGTERM ends it with 0."""
    with serving(catalog, "--host", "localhost") as api:
        assert api.url.startswith("http://127.0.0.1:")
        assert api.get("search", ids="glm-1").json["numberReturned"] == 1


def test_serving_needs_a_catalog(tmp_path: Path) -> None:
    """A database that is not there is not made."""
    done = tallgrass("stac", "serve", "--port", "0", at=f"sqlite:///{tmp_path / 'none.db'}")
    assert done.code == 4
    assert list(tmp_path.iterdir()) == []


def test_help_loads_nothing_heavy() -> None:
    """Help of the group and its verbs imports neither drivers nor libraries of the extras."""
    heavy = "{'fastapi', 'pyarrow', 'jsonschema_rs', 'shapely', 'sqlite3', 'uvicorn', 'rich'}"
    script = (
        "import sys\nfrom tallgrass.cli.main import run\n"
        f"code = run(sys.argv[1:])\nprint(code, sorted({heavy} & set(sys.modules)))"
    )
    for verb in ([], ["export"], ["validate"], ["serve"], ["collections", "refresh"]):
        done = subprocess.run(
            [*PROGRAM[:1], "-c", script, "stac", *verb, "--help"],
            check=True, capture_output=True, text=True, env=environment(),
        )  # fmt: skip
        assert done.stdout.splitlines()[-1] == "0 []", verb
        assert "Example" in done.stdout
