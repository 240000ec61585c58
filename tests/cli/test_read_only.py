"""Reading commands need only rights to read."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tallgrass.intake.message import PoisonMessage
from tests.cli.command import fill, tallgrass, uri
from tests.plugins.postgres_server import new_folder
from tests.support.backends import Backend, prepare
from tests.support.file_modes import obey_file_modes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READING = [
    ("wal", "list"),
    ("wal", "stats"),
    ("wal", "show", uri(0)),
    ("wal", "history", uri(0)),
    ("wal", "export"),
    ("audit", "list"),
    ("audit", "verify"),
    ("db", "check"),
    ("status",),
    ("poison", "list"),
    ("poison", "show", "1", "--body"),
    ("poison", "feed", "--all", "--dry-run"),
    ("verify", "--dataset", "hrrr"),
    ("replay", "--dry-run", "--dataset", "hrrr"),
    (
        *("reconcile", "--dataset", "hrrr", "--catalog-only"),
        *("--since", "2020-01-01", "--until", "2020-01-01T01:00:00Z"),
    ),
]


def put_poison(backend: Backend) -> None:
    """Store one message that was not understood."""
    stores = backend.open()
    message = PoisonMessage(
        queue="q", body=b"x", message_id=None, error_code="invalid_input", error_message="no JSON"
    )
    stores.poison.put([message])
    stores.close()


@pytest.fixture
def read_only_folder() -> Iterator[Backend]:
    """A filled SQLite ledger whose file and folder nobody may write."""
    folder = new_folder("tallgrass-ro-")
    backend = prepare("sqlite", f"sqlite:///{folder / 'ledger.db'}")
    fill(backend)
    put_poison(backend)
    backend.close()
    (folder / "ledger.db").chmod(0o444)
    folder.chmod(0o555)
    yield backend
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def read_only_role(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a filled PostgreSQL ledger, for a role that may only SELECT."""
    databases = request.getfixturevalue("postgres_databases")
    template = databases.template("ledger", lambda url: prepare("postgres", url).close())
    backend = Backend("postgres", databases.create(template))
    fill(backend)
    put_poison(backend)
    role = f"tallgrass_reader_{uuid.uuid4().hex[:8]}"
    backend.sql(f"CREATE ROLE {role} LOGIN PASSWORD 'reader'")
    backend.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    parts = urlsplit(backend.url)
    host = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{role}:reader@{host}"))
    backend.close()
    databases.drop(backend.url)
    with psycopg.connect(databases.server_url, autocommit=True) as connection:
        connection.execute(f"DROP ROLE {role}")


def test_a_sqlite_file_that_nobody_may_write_can_be_read(read_only_folder: Backend) -> None:
    """Every reading command works, changes no byte and leaves nothing beside the file."""
    folder = read_only_folder.path.parent
    body = read_only_folder.path.read_bytes()
    names = sorted(path.name for path in folder.iterdir())
    touch = subprocess.run(["touch", folder / "x"], preexec_fn=obey_file_modes, check=False)
    assert touch.returncode == 1, "the premise: this folder cannot be written"
    for command in READING:
        done = tallgrass(*command, at=read_only_folder, preexec_fn=obey_file_modes)
        assert done.code == 0, (command, done.err)
        assert done.out
    assert read_only_folder.path.read_bytes() == body
    assert sorted(path.name for path in folder.iterdir()) == names


def test_a_role_that_may_only_select_can_read(read_only_role: str, tmp_path: Path) -> None:
    """Every reading command works for it; writing is refused with the reason."""
    for command in READING:
        done = tallgrass(*command, at=read_only_role, cwd=tmp_path)
        assert done.code == 0, (command, done.err)
        assert done.out
    check = tallgrass("db", "check", "--output", "json", at=read_only_role)
    assert check.json["writable"] is False
    seal = tallgrass("audit", "seal", "--output", "json", at=read_only_role, cwd=tmp_path)
    assert (seal.code, seal.error["code"]) == (1, "database_denied")


@pytest.mark.parametrize(
    "command", [("status",), ("db", "check"), ("db", "migrate"), ("switches", "list")]
)
@pytest.mark.parametrize("place", ["locked/ledger.db", "locked/deeper/ledger.db", "a" * 300])
def test_a_place_that_may_not_be_looked_at_is_unreachable(
    tmp_path: Path, place: str, command: tuple[str, ...]
) -> None:
    """A folder without rights and a name that no file can have: 4, as for every other address."""
    (tmp_path / "locked").mkdir(mode=0o000)
    done = tallgrass(
        *command, "--output", "json", at=f"sqlite:///{tmp_path / place}",
        cwd=tmp_path, preexec_fn=obey_file_modes,
    )  # fmt: skip
    assert (done.code, done.error["code"]) == (4, "database_unreachable")
    assert str(tmp_path / place) in done.error["message"]


@pytest.mark.parametrize(
    ("setting", "command"),
    [
        ("DATABASE_URL", ("status",)),
        ("DATABASE_URL", ("db", "check")),
        ("QUEUE_URL", ("queue", "status")),
    ],
)
def test_a_pipe_is_not_waited_for(tmp_path: Path, setting: str, command: tuple[str, ...]) -> None:
    """A pipe that nobody writes to, as the ledger's file or the queue's: 4 at once, and why."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    done = tallgrass(
        *command, "--output", "json", env={f"TALLGRASS_{setting}": f"sqlite:///{path}"},
        cwd=tmp_path,
    )  # fmt: skip
    assert (done.code, done.error["code"]) == (4, "database_unreachable")
    assert f"{path} is a pipe" in done.error["message"]


@pytest.mark.parametrize("setting", ["DATABASE_URL", "QUEUE_URL", "AUDIT_ANCHOR_FILE"])
def test_the_doctor_goes_on_where_it_may_not_look(tmp_path: Path, setting: str) -> None:
    """A folder without rights is one finding among the others, which are all told."""
    (tmp_path / "locked").mkdir(mode=0o000)
    prefix = "" if setting == "AUDIT_ANCHOR_FILE" else "sqlite:///"
    done = tallgrass(
        "doctor", "--skip-network", "--output", "json",
        env={f"TALLGRASS_{setting}": f"{prefix}{tmp_path}/locked/deeper/file"},
        cwd=tmp_path, preexec_fn=obey_file_modes,
    )  # fmt: skip
    assert done.code == 1
    assert len(done.json["findings"]) > 10


def test_a_backup_is_taken_from_a_disk_that_is_only_read(tmp_path: Path) -> None:
    """A disk that failed is mounted so: it is then that a backup is wanted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    url = f"sqlite:///{folder / 'ledger.db'}"
    assert tallgrass("db", "migrate", at=url).code == 0
    (folder / "ledger.db.lock").unlink()
    (folder / "ledger.db").chmod(0o444)
    folder.chmod(0o555)
    done = tallgrass(
        "db", "backup", "--to", str(tmp_path / "copy"), "--output", "json",
        at=url, cwd=tmp_path, preexec_fn=obey_file_modes,
    )  # fmt: skip
    folder.chmod(0o755)
    assert done.code == 0, done.err
    assert tallgrass("db", "check", at=f"sqlite:///{tmp_path / 'copy' / 'ledger.db'}").code == 0
