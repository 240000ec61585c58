"""`tallgrass stac project` as a real process: its flags, its errors, its place in status."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import PROGRAM, environment, tallgrass
from tests.projection.scene import FILLED, change, copied, project, stored, waiting
from tests.support.backends import Backend, prepare
from tests.support.catalog import Known, write_catalog
from tests.web.scene import ITEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases

PROJECT = ("stac", "project", "--output", "json")
ONLY_FILLED = tuple(word for name in FILLED for word in ("--collection", name))


def start(backend: Backend, *flags: str) -> subprocess.Popen[str]:
    """Start a copy that is still at work."""
    return subprocess.Popen(
        [*PROGRAM, "--database", backend.url, *PROJECT, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def until(process: subprocess.Popen[str], seen: Callable[[], Any]) -> None:
    """Return once something is seen; a process that ended before fails the test."""
    while not seen():
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)


@pytest.fixture
def plain(postgis_databases: Databases) -> Iterator[Backend]:
    """A migrated database on a server with PostGIS, without pgstac in it."""
    made = prepare("postgres", postgis_databases.create())
    yield made
    made.close()
    postgis_databases.drop(made.url)


def test_pgstac_is_made_on_request_alone(plain: Backend) -> None:
    """Without it the error names the flag; with the flag it is made, and the copy after it."""
    write_catalog(plain, ITEMS)
    done = tallgrass(*PROJECT, at=plain)
    assert (done.code, done.error["code"]) == (1, "pgstac_schema_missing")
    assert "--migrate" in done.error["remedy"]
    made = tallgrass(*PROJECT, "--migrate", *ONLY_FILLED, at=plain).json
    assert made == {
        "pgstac": "0.10.0", "collections": 3, "items": 6, "without_place": 1, "batches": 3,
        "waiting": 0,
    }  # fmt: skip
    assert copied(plain) == stored(plain)
    again = tallgrass("stac", "project", "--migrate", *ONLY_FILLED, at=plain)
    assert again.out == "0 items of 3 collections copied to pgstac 0.10.0.\n"


def test_a_database_that_cannot_hold_a_copy_is_told(backend: Backend) -> None:
    """SQLite has no pgstac; the server of the other has no PostGIS. Nothing is noted."""
    done = tallgrass(*PROJECT, "--migrate", at=backend)
    expected = {"sqlite": (2, "pgstac_needs_postgres"), "postgres": (1, "postgis_missing")}
    assert (done.code, done.error["code"]) == expected[backend.name]
    assert tallgrass("status", "--output", "json", at=backend).json["projection"] is None


def test_another_version_of_pgstac_is_refused(catalog: Backend) -> None:
    """The installed library writes to its own version alone."""
    catalog.sql("INSERT INTO pgstac.migrations (version, datetime)"
                " VALUES ('0.9.1', now() + interval '1 day')")  # fmt: skip
    done = tallgrass(*PROJECT, at=catalog)
    assert (done.code, done.error["code"]) == (1, "pgstac_schema_other")
    assert "0.9.1" in done.error["message"]


def test_a_missing_library_is_told(catalog: Backend, tmp_path: Path) -> None:
    """The extra is named; no traceback."""
    (tmp_path / "pypgstac").mkdir()
    (tmp_path / "pypgstac" / "__init__.py").write_text("raise ModuleNotFoundError('pypgstac')")
    done = tallgrass(*PROJECT, at=catalog, env={"PYTHONPATH": str(tmp_path)})
    assert (done.code, done.error["code"]) == (2, "pgstac_missing")
    assert "tallgrass[pgstac]" in done.error["remedy"]


def test_flags_choose_what_is_copied_and_how(catalog: Backend) -> None:
    """--collection, --batch, --rebuild and --forget each show in what was done."""
    write_catalog(catalog, ITEMS)
    done = tallgrass(*PROJECT, "--collection", "hrrr", "--batch", "2", at=catalog).json
    assert (done["items"], done["batches"]) == (3, 2)
    assert {name for name, _ in copied(catalog)} == {"hrrr"}
    catalog.sql("DELETE FROM pgstac.items WHERE id = 'hrrr-1'")
    assert project(catalog, "hrrr").report.items == 0
    assert tallgrass(*PROJECT, "--collection", "hrrr", "--rebuild", at=catalog).json["items"] == 3
    assert len(copied(catalog)) == 3
    both = tallgrass(*PROJECT, "--forget", "--follow", at=catalog)
    assert both.code == 2
    assert tallgrass(*PROJECT, "--forget", at=catalog).json == {"forgotten": 1}
    change(catalog, "hrrr-1", version=2)
    assert waiting(catalog) == 0


def test_following_copies_what_comes_and_stops_when_told(catalog: Backend) -> None:
    """A change is copied without being asked for; SIGTERM ends it with a report."""
    write_catalog(catalog, ITEMS)
    process = start(catalog, "--follow", "--every", "0.1", *ONLY_FILLED)
    until(process, lambda: len(copied(catalog)) == 6)
    write_catalog(catalog, [Known(id="glm-9")])
    until(process, lambda: len(copied(catalog)) == 7)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert '"items": 7' in out


def test_a_killed_copy_goes_on_where_it_was(catalog: Backend) -> None:
    """Nothing is left out and nothing is written twice, wherever it was killed."""
    items = [Known(id=f"glm-{number:03}") for number in range(150)]
    write_catalog(catalog, items)
    process = start(catalog, "--batch", "1", "--collection", "goes-glm")
    until(process, lambda: catalog.sql("SELECT 1 FROM pgstac.items LIMIT 1 OFFSET 5"))
    process.kill()
    process.communicate()
    begun = len(copied(catalog))
    assert 5 < begun < 150
    assert project(catalog, "goes-glm").report.items == 150 - begun
    assert copied(catalog) == stored(catalog)
    assert catalog.sql("SELECT items FROM stac_projections") == [(150,)]


def test_status_and_doctor_tell_how_far_behind_the_copy_is(catalog: Backend) -> None:
    """Only where there is one: changes that wait, the age of the oldest, what was never copied."""
    write_catalog(catalog, ITEMS)
    assert tallgrass("status", "--output", "json", at=catalog).json["projection"] is None
    assert "pgstac" not in tallgrass("status", at=catalog).out
    project(catalog)
    change(catalog, "glm-1", version=2)
    change(catalog, "hrrr-1", version=2)
    catalog.sql("UPDATE stac_projections SET copied_to = 'hrrr-1' WHERE collection_id = 'hrrr'")
    catalog.sql("UPDATE stac_changes SET changed_at = now() - interval '2 hours'"
                " WHERE collection_id = 'hrrr'")  # fmt: skip
    found = tallgrass("status", "--output", "json", at=catalog).json["projection"]
    assert (found["collections"], found["uncopied"], found["changed"]) == (3, 2, 2)
    assert 7200 <= found["lag_s"] < 7200 + 600
    lines = [" ".join(line.split()) for line in tallgrass("status", at=catalog).out.splitlines()]
    for line in ("Copy in pgstac", "items to copy first 2", "changes to copy 2"):
        assert line in lines
    findings = tallgrass("doctor", "--output", "json", at=catalog).json["findings"]
    (projection,) = [one for one in findings if one["name"] == "projection"]
    assert projection["verdict"] == "warning"
    assert "2 changes wait" in projection["seen"]
