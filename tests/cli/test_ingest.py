"""`tallgrass ingest` as a real process, on both databases: from messages to items, and its end."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.outbox import DispatchResult
from tallgrass.cli import dispatch_beside, ingest
from tallgrass.errors import DatabaseUnusable, InvalidInput
from tallgrass.outbox.dispatch_loop import DispatchReport
from tests.cli.command import here, tallgrass
from tests.cli.pipeline import make_feed, shares
from tests.support.catalog import spanned

if TYPE_CHECKING:
    import subprocess

    from tallgrass.ingest_loop import LoopReport
    from tests.support.backends import Backend

CONFIGURATION = '[outbox.targets.file]\nkind = "file"\npath = "{folder}/file.jsonl"\n'
LOG_LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z (info|warning|error) "
    r"[a-z_]+( [a-z_]+=(\"[^\n]*\"|\S+))*"
)


def by_status(backend: Backend) -> dict[str, int]:
    """Count records by plain SQL."""
    rows = backend.sql("SELECT status, count(*) FROM wal_records GROUP BY status")
    return {str(status): int(number) for status, number in rows}


def test_drain_turns_every_message_into_what_the_feed_asks_for(
    backend: Backend, tmp_path: Path
) -> None:
    """With `--drain` all is done now: units as planned, an item for each success, poison kept."""
    feed = make_feed(tmp_path, 60, *shares(zero_bytes="0.1", poison="0.05", deletions="0.05"))
    done = feed.ingest(backend, "--drain")
    assert done.code == 0, done.err
    assert feed.told["expected"] == {"failed": 6, "succeeded": 54}
    assert by_status(backend) == {"failed": 6, "succeeded": 54}
    assert backend.sql("SELECT count(*) FROM stac_items") == [(54,)]
    assert backend.sql("SELECT sum(times_seen) FROM poison_messages") in ([(3,)], [("3",)])
    report = done.json
    assert report["processes"] == 1
    assert report["poison"] == 3
    assert report["ignored"] == {"deletion": 3}
    assert report["by_verdict"] == {"succeeded": 54, "failed": 6}
    assert (feed.in_queue(), feed.in_queue("dead_letters")) == (0, 6)
    # A line an event, also for messages that hold quotes.
    lines = done.err.splitlines()
    assert [line for line in lines if not LOG_LINE.fullmatch(line)] == []
    assert sum(" warning message_poisoned queue=nodd-primary " in line for line in lines) == 3
    assert sum(" unit_failed " in line and "error_code=size_zero" in line for line in lines) == 6
    assert " info worker_started worker_id=worker " in lines[0]
    assert " info worker_stopped worker_id=worker " in lines[-1]


def test_once_takes_one_batch(backend: Backend, tmp_path: Path) -> None:
    """`--once --batch 7` takes seven messages and leaves the others as they are."""
    feed = make_feed(tmp_path, 20, *shares())
    done = feed.ingest(backend, "--once", "--batch", "7")
    assert done.code == 0, done.err
    assert (done.json["rounds"], done.json["messages"], done.json["units"]) == (1, 7, 7)
    assert by_status(backend) == {"succeeded": 7}
    assert feed.in_queue() == 13
    assert spanned(backend.sql)


def test_processes_share_the_work_and_end_together(backend: Backend, tmp_path: Path) -> None:
    """`--processes 2` runs two workers with leases of their own; the report adds them up."""
    feed = make_feed(tmp_path, 40, *shares())
    done = feed.ingest(backend, "--drain", "--processes", "2", "--batch", "5")
    assert done.code == 0, done.err
    assert (done.json["processes"], done.json["units"], done.json["messages"]) == (2, 40, 40)
    assert by_status(backend) == {"succeeded": 40}
    leases = backend.sql("SELECT incarnation FROM workers WHERE stopped_at IS NOT NULL")
    assert len(leases) == 2
    assert set(spanned(backend.sql)) == {"goes-glm", "hrrr", "nexrad-l2"}


def test_objects_says_what_is_believed(backend: Backend, tmp_path: Path) -> None:
    """`--objects event` reads nothing: what is missing from the folder is not waited for."""
    feed = make_feed(tmp_path, 10, *shares(missing="1"))
    assert set(feed.ingest(backend, "--once").json["by_verdict"]) == {"retry"}
    other = make_feed(tmp_path / "other", 10, *shares(missing="1"), "--seed", "2")
    done = other.ingest(backend, "--objects", "event", "--drain")
    # With them, those of the first ten that were due again by then.
    assert set(done.json["by_verdict"]) == {"succeeded"}
    assert done.json["by_verdict"]["succeeded"] >= 10


def test_lineage_events_are_rows_only_where_a_target_wants_them(
    backend: Backend, tmp_path: Path
) -> None:
    """Each success is one event for `file`; with a target, START and COMPLETE for that one too."""
    events = "SELECT target, event_name, count(*) FROM outbox GROUP BY 1, 2 ORDER BY 1, 2"
    feed = make_feed(tmp_path, 6, *shares(zero_bytes="0.5"))
    assert feed.ingest(backend, "--drain").code == 0
    assert backend.sql(events) == [("file", "nodd.item.created", 3)]
    other = make_feed(tmp_path / "other", 4, *shares(), "--seed", "2")
    done = other.ingest(backend, "--drain", TALLGRASS_OUTBOX_LINEAGE_TARGET="marquez")
    assert done.code == 0, done.err
    assert backend.sql(events) == [
        ("file", "nodd.item.created", 7),
        ("marquez", "openlineage.complete", 4),
        ("marquez", "openlineage.start", 4),
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_signal_ends_it_in_good_order(
    backend: Backend, tmp_path: Path, number: signal.Signals, processes: str
) -> None:
    """Told to stop it finishes, hands back, reports and ends with 0; nothing stays in progress."""
    feed = make_feed(tmp_path, 10, *shares())
    child = feed.start(backend, "--processes", processes)
    try:
        wait_for(lambda: feed.in_queue() == 0 and by_status(backend) == {"succeeded": 10})
        wait_for(lambda: len(backend.sql("SELECT 1 FROM workers")) == int(processes))
        child.send_signal(number)
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 0, err
    assert "Traceback" not in err
    assert '"units": 10' in out
    assert err.count(" info worker_stopped ") == int(processes)
    assert backend.sql("SELECT count(*) FROM workers WHERE stopped_at IS NULL") == [(0,)]


def test_no_worker_outlives_the_process_that_started_it(backend: Backend, tmp_path: Path) -> None:
    """SIGKILL of the parent: its workers notice, hand back and end by themselves."""
    feed = make_feed(tmp_path, 10, *shares())
    parent = feed.start(backend, "--processes", "2")
    try:
        wait_for(lambda: len(backend.sql("SELECT 1 FROM workers")) == 2)
        children = children_of(parent)
        assert len(children) >= 2
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not any(is_running(pid) for pid in children))
    assert parent.stderr is not None
    parent.stderr.close()
    assert parent.stdout is not None
    parent.stdout.close()
    assert backend.sql("SELECT count(*) FROM workers WHERE stopped_at IS NULL") == [(0,)]


def test_a_worker_that_dies_is_told_at_once_and_replaced(backend: Backend, tmp_path: Path) -> None:
    """One of two workers killed: the other goes on, a third takes the place, all end well."""
    feed = make_feed(tmp_path, 10, *shares())
    parent = feed.start(backend, "--processes", "2")
    try:
        wait_for(lambda: by_status(backend) == {"succeeded": 10})
        wait_for(lambda: len(backend.sql("SELECT 1 FROM workers")) == 2)
        workers = [pid for pid in children_of(parent) if b"spawn_main" in command_line(pid)]
        os.kill(workers[0], signal.SIGKILL)
        wait_for(lambda: len(backend.sql("SELECT 1 FROM workers")) == 3)
        parent.send_signal(signal.SIGTERM)
        _, err = parent.communicate(timeout=30)
    finally:
        parent.kill()
    assert parent.returncode == 0, err
    assert f" error worker_died pid={workers[0]} exit_code=-9\n" in err
    assert err.count(" info worker_stopped ") == 2


#: Put before the package on the path: the worker that takes the file away ends with the error.
FAILING_WORKER = """
import os
from tallgrass import errors
from tallgrass.bootstrap import ingesting

real = ingesting._work_under_a_lease

def work(*args):
    try:
        os.unlink({file!r})
    except FileNotFoundError:
        return real(*args)
    raise {error}

ingesting._work_under_a_lease = work
"""


def failing_once(folder: Path, error: str) -> dict[str, str]:
    """Return the environment in which one worker ends with an error as it begins."""
    file = folder / "fails"
    file.touch()
    text = FAILING_WORKER.format(file=str(file), error=error)
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ("ZeroDivisionError('by chance')", "internal_error", "ZeroDivisionError: by chance"),
        ("errors.DatabaseUnreachable('at first')", "database_unreachable", "at first"),
    ],
)
def test_a_worker_that_ends_with_an_error_is_told_at_once_and_replaced(
    backend: Backend, tmp_path: Path, error: str, code: str, message: str
) -> None:
    """What nobody foresaw, or what may pass: another takes its place, and all end well."""
    feed = make_feed(tmp_path, 10, *shares())
    parent = feed.start(backend, "--processes", "2", **failing_once(tmp_path, error))
    try:
        wait_for(lambda: by_status(backend) == {"succeeded": 10})
        wait_for(lambda: len(backend.sql("SELECT 1 FROM workers")) == 2)
        parent.send_signal(signal.SIGTERM)
        _, err = parent.communicate(timeout=30)
    finally:
        parent.kill()
    assert parent.returncode == 0, err
    told = rf' error worker_failed pid=\d+ error_code={code} message="{message}"\n'
    assert len(re.findall(told, err)) == 1
    assert err.index(" worker_failed ") < err.index(" worker_stopped ")
    assert err.count(" info worker_stopped ") == 2


def test_an_error_that_stays_ends_all_workers(backend: Backend, tmp_path: Path) -> None:
    """A service does not run on with fewer: it ends in good order, with the error as its answer."""
    feed = make_feed(tmp_path, 10, *shares())
    env = failing_once(tmp_path, "errors.DatabaseUnusable('of another release')")
    parent = feed.start(backend, "--processes", "2", **env)
    try:
        _, err = parent.communicate(timeout=30)
    finally:
        parent.kill()
    told, _, answer = err.partition("{")
    assert 'error_code=database_unusable message="of another release"' in told
    assert told.index(" worker_failed ") < told.index(" worker_stopped ")
    assert told.count(" info worker_stopped ") == 1
    code = json.loads("{" + answer)["error"]["code"]
    assert (parent.returncode, code) == (1, "database_unusable")
    assert backend.sql("SELECT count(*) FROM workers WHERE stopped_at IS NULL") == [(0,)]


def test_an_error_that_stays_is_the_answer_of_a_drain(backend: Backend, tmp_path: Path) -> None:
    """Who waits for an end is told there; the other worker does what there is to do."""
    feed = make_feed(tmp_path, 10, *shares())
    env = failing_once(tmp_path, "errors.DatabaseUnusable('of another release')")
    done = feed.ingest(backend, "--drain", "--processes", "2", **env)
    told, _, answer = done.err.partition("{")
    assert " error worker_failed " in told
    assert (done.code, json.loads("{" + answer)["error"]["code"]) == (1, "database_unusable")
    assert by_status(backend) == {"succeeded": 10}


def test_a_process_that_slept_past_its_lease_goes_on_under_a_new_one(
    backend: Backend, tmp_path: Path
) -> None:
    """Stopped, fenced by others, continued: the old lease writes nothing, the work goes on."""
    feed = make_feed(tmp_path, 5, *shares())
    child = feed.start(backend, TALLGRASS_WORKER_LEASE_S="1")
    try:
        wait_for(lambda: by_status(backend) == {"succeeded": 5})
        _stop_until_fenced(child, backend)
        child.send_signal(signal.SIGCONT)
        wait_for(lambda: len(backend.sql("SELECT 1 FROM workers")) >= 2)
        make_feed(tmp_path, 7, *shares(), "--seed", "2")
        wait_for(lambda: by_status(backend) == {"succeeded": 12})
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == 0, err
    assert err.count(" error worker_fenced ") >= 1
    assert err.count(" info worker_started ") >= 2
    assert '"units": 12' in out


def _stop_until_fenced(child: subprocess.Popen[str], backend: Backend) -> None:
    """Stop a process until others have fenced it.

    One that is stopped within a transaction holds its own row: it goes on, and is stopped anew.
    """
    leases = backend.open().leases
    alive = "SELECT 1 FROM workers WHERE fenced_at IS NULL AND stopped_at IS NULL"
    for _ in range(6):
        child.send_signal(signal.SIGSTOP)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            leases.recover()
            if not backend.sql(alive):
                return
            time.sleep(0.05)
        child.send_signal(signal.SIGCONT)
        time.sleep(0.2)
    raise AssertionError("it was never fenced")


#: Put before the package on the path: reading one object crashes as a native library would.
CRASHING_LIBRARY = """
import os
from tallgrass.evidence.object_store import LocalObjects

real = LocalObjects.read

def read(self, object_uri, tail_bytes):
    if object_uri == os.environ["CRASHES_ON"]:
        os.abort()
    return real(self, object_uri, tail_bytes)

LocalObjects.read = read
"""


def test_an_object_that_crashes_a_native_library_is_isolated(
    backend: Backend, tmp_path: Path
) -> None:
    """Each crash takes a whole worker with it; in the end one unit is held, all others succeed."""
    feed = make_feed(tmp_path, 40, *shares(), "--manifest", str(tmp_path / "manifest.json"))
    units = json.loads((tmp_path / "manifest.json").read_bytes())["units"]
    killer = units[17]["object_uri"]
    (tmp_path / "sitecustomize.py").write_text(CRASHING_LIBRARY, encoding="utf-8")
    parent = feed.start(
        backend,
        "--processes",
        "2",
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
        CRASHES_ON=killer,
        TALLGRASS_WORKER_LEASE_S="2",
        TALLGRASS_LEDGER_MAX_ATTEMPTS="3",
    )
    try:
        wait_for(lambda: by_status(backend) == {"succeeded": 39, "quarantined": 1}, seconds=120)
        parent.send_signal(signal.SIGTERM)
        _, err = parent.communicate(timeout=30)
    finally:
        parent.kill()
    assert parent.returncode == 0, err
    deaths = err.count(" error worker_died ")
    assert deaths >= 1
    assert err.count(" exit_code=-6\n") == deaths
    held = backend.sql("SELECT object_uri FROM wal_records WHERE status = 'quarantined'")
    assert held == [(killer,)]
    attempts = backend.sql(
        "SELECT a.error_code FROM wal_attempts a JOIN wal_records r ON r.wal_id = a.wal_id"
        f" WHERE r.object_uri = '{killer}' ORDER BY a.attempt_no"
    )
    assert attempts == [("lease_expired",)] * 3
    assert feed.in_queue("dead_letters") == 0


def test_dispatchers_that_die_end_the_command(backend: Backend, tmp_path: Path) -> None:
    """Told at once, the workers end in good order, and the answer is the dispatchers' error."""
    feed = make_feed(tmp_path, 3, *shares())
    backend.sql("DROP TABLE outbox_attempts")  # only who delivers needs it
    file = tmp_path / "tallgrass.toml"
    file.write_text(CONFIGURATION.format(folder=tmp_path), encoding="utf-8")
    child = feed.start(backend, "--dispatch", TALLGRASS_CONFIG=str(file))
    try:
        _, err = child.communicate(timeout=60)
    finally:
        child.kill()
    told, _, answer = err.partition("{")
    assert " error dispatch_failed error_code=schema_missing message=" in told
    assert " info worker_stopped " in told
    assert (child.returncode, json.loads("{" + answer)["error"]["code"]) == (1, "schema_missing")


def test_an_error_of_workers_is_not_hidden_by_one_of_dispatchers(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both end with an error: that of the dispatchers is told, the other one is the answer."""
    feed = make_feed(tmp_path, 1, *shares())
    file = tmp_path / "tallgrass.toml"
    file.write_text(CONFIGURATION.format(folder=tmp_path), encoding="utf-8")
    outcomes = iter([DispatchResult(report=DispatchReport(), left={}, stopped=[])])

    def dispatch(*_args: Any, **_options: Any) -> DispatchResult:
        if (found := next(outcomes, None)) is None:
            raise DatabaseUnusable("of the dispatchers")
        return found

    def run_here(*_args: Any) -> LoopReport:
        raise InvalidInput("of the workers")

    monkeypatch.setattr(dispatch_beside, "dispatch", dispatch)
    monkeypatch.setattr(ingest, "_run_here", run_here)
    done = here("ingest", *feed.flags(backend), "--dispatch", env={"TALLGRASS_CONFIG": str(file)})
    told, _, answer = done.err.partition("{")
    assert 'dispatch_failed error_code=database_unusable message="of the dispatchers"' in told
    assert (done.code, json.loads("{" + answer)["error"]["message"]) == (2, "of the workers")


def test_what_cannot_run_is_told_before_it_starts(tmp_path: Path) -> None:
    """Two ends at once, no such folder, no tables, a batch of 0: told with a code, nothing made."""
    store = ("--store", f"sqlite:///{tmp_path / 'l.db'}")
    queue = ("--queue", f"sqlite:///{tmp_path / 'q.db'}")
    as_json = ("--output", "json")
    both = tallgrass("ingest", "--once", "--drain", *store, *queue, *as_json)
    assert (both.code, both.error["code"]) == (2, "invalid_input")
    none = tallgrass("ingest", "--once", "--batch", "0", *store, *queue, *as_json)
    assert (none.code, none.error["code"]) == (2, "config_invalid")
    for processes in ("1", "2"):
        bare = tallgrass("ingest", "--once", *store, *queue, "--processes", processes, *as_json)
        assert (bare.code, bare.error["code"]) == (4, "database_unreachable")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_queue_that_is_not_there_is_not_made(
    backend: Backend, tmp_path: Path, processes: str
) -> None:
    """A mistyped `--queue` is told with the name that is near; no empty queue waits for ever."""
    feed = make_feed(tmp_path, 1, *shares())
    mistyped = tmp_path / "quue.db"
    done = feed.ingest(
        backend, "--queue", f"sqlite:///{mistyped}", "--drain", "--processes", processes
    )
    assert (done.code, done.error["code"]) == (4, "queue_missing")
    assert f"there is no queue sqlite:///{mistyped}; did you mean 'queue.db'?" in done.err
    assert not mistyped.exists()


def test_the_configured_queue_is_made(backend: Backend, tmp_path: Path) -> None:
    """A worker may be there before the first message."""
    queue = tmp_path / "new.db"
    done = tallgrass(
        "ingest", "--once", "--store", backend.url, "--objects", "event", "--output", "json",
        env={"TALLGRASS_QUEUE_URL": f"sqlite:///{queue}"},
    )  # fmt: skip
    assert done.code == 0, done.err
    assert queue.exists()


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_folder_that_is_not_there_is_a_bad_setting(
    backend: Backend, tmp_path: Path, processes: str
) -> None:
    """`--objects` that names no folder: exit code 2 and the setting, whoever found it."""
    feed = make_feed(tmp_path, 1, *shares())
    done = feed.ingest(
        backend, "--objects", f"file:{tmp_path / 'no'}", "--once", "--processes", processes
    )
    assert done.code == 2
    assert '"code": "config_invalid"' in done.err
    assert "objects.url" in done.err


def wait_for(condition: object, seconds: float = 30) -> None:
    """Wait until something holds."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.05)


def children_of(parent: subprocess.Popen[str]) -> list[int]:
    """Return the processes that a process has started."""
    text = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text(encoding="ascii")
    return [int(pid) for pid in text.split()]


def command_line(pid: int) -> bytes:
    """Return the arguments of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def is_running(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return False
