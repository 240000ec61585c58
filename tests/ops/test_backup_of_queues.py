"""Queues in a backup: those of replay runs too, and no message that slips through between two."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap import backing_up
from tallgrass.bootstrap.backing_up import back_up
from tallgrass.bootstrap.dead_letters import bring_letters_home, make_replay_queue
from tallgrass.bootstrap.draining import DrainOptions
from tallgrass.bootstrap.queues import open_queue
from tallgrass.queues.replay_queues import replay_queue_url
from tallgrass.storage.sqlite_backup import Moment
from tests.pipeline.scene import message_of, thing
from tests.replay.letters import Letters

if TYPE_CHECKING:
    import pytest

    from tests.support.backends import Backend

BODIES = "SELECT body FROM messages UNION ALL SELECT body FROM dead_letters"


def path_of(url: str) -> Path:
    """Return the file of an address."""
    return Path(url.removeprefix("sqlite:///"))


def bodies(*files: Path) -> list[bytes]:
    """Return the messages and dead letters that files of queues hold."""
    found: list[bytes] = []
    for file in files:
        with closing(sqlite3.connect(file)) as connection:
            found += [bytes(body) for (body,) in connection.execute(BODIES)]
    return found


def test_a_letter_that_only_the_queue_of_a_run_has_is_restored(
    backend: Backend, tmp_path: Path
) -> None:
    """It died before any worker recorded it, and was drained: the backup brings it back."""
    letters, given, copy = Letters(backend, tmp_path), thing(), tmp_path / "backup"
    letters.pipeline.put(given)
    letters.send(message_of(given.event()))
    plan = letters.plan()
    assert letters.drain(plan, options=DrainOptions(to_replay_queue=True)).sent == 1
    assert letters.dead() == []
    queue = letters.config.text("queue.url")
    run_queue = replay_queue_url(queue, plan.header.replay_run_id)
    only = backend.name == "postgres"
    files = back_up(letters.config, copy, queue_only=only)
    names = ["queue.db", path_of(run_queue).name, *([] if only else ["ledger.db"])]
    assert [Path(each.file).name for each in files] == names
    assert [each.source for each in files[:2]] == [str(path_of(queue)), str(path_of(run_queue))]

    for url, name in ((queue, names[0]), (run_queue, names[1])):
        for end in ("", "-wal", "-shm"):
            Path(f"{path_of(url)}{end}").unlink(missing_ok=True)
        path_of(url).write_bytes((copy / name).read_bytes())
    assert letters.work(run_queue, replay_run_id=plan.header.replay_run_id) == 1
    assert letters.statuses(given) == ["succeeded"]


def test_no_letter_slips_through_on_its_way_home(
    tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes from the queue of a run to the dead letters while both are copied: one has it."""
    letters = Letters(backend, tmp_path)
    config, body = letters.config, message_of(thing().event())
    with closing(
        open_queue(config, url=make_replay_queue(config, "run-1"), clock=letters.pipeline.clock)
    ) as queue:
        queue.send([body])
        queue.receive(1)
        letters.pipeline.clock.advance(301)
        assert queue.receive(1) == []
    way_home = threading.Thread(target=bring_letters_home, args=(config, "run-1"))

    class Slow(Moment):
        """A look at the main queue after which its letters take their time to come home."""

        def __init__(self, source: Path) -> None:
            super().__init__(source)
            if source == path_of(config.text("queue.url")):
                way_home.start()
                way_home.join(0.5)

    monkeypatch.setattr(backing_up, "Moment", Slow)
    files = back_up(config, tmp_path / "backup", queue_only=True)
    way_home.join()
    assert body in bodies(*(Path(each.file) for each in files))
    assert [row["body"] for row in letters.dead()] == [body]


def test_a_queue_that_a_drain_makes_meanwhile_is_copied_too(
    tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the drain sent there is in the backup, as the ledger may say that it was sent."""
    letters = Letters(backend, tmp_path)
    config = letters.config
    made: list[str] = []

    class Late(Moment):
        """A look at the main queue after which a run has a queue of its own."""

        def __init__(self, source: Path) -> None:
            super().__init__(source)
            if not made:
                made.append(make_replay_queue(config, "run-1"))
                with closing(open_queue(config, url=made[0])) as queue:
                    queue.send([b"sent"])

    monkeypatch.setattr(backing_up, "Moment", Late)
    files = back_up(config, tmp_path / "backup", queue_only=True)
    assert bodies(*(Path(each.file) for each in files)) == [b"sent"]


def test_a_queue_without_an_ending_has_no_journals_in_the_backup(
    tmp_path: Path, backend: Backend
) -> None:
    """What SQLite keeps beside the queue of a run is named as if it were one."""
    letters = Letters(backend, tmp_path)
    config = letters.configured(queue__url=f"sqlite:///{tmp_path / 'queue'}")
    with (
        closing(open_queue(config)) as main,
        closing(open_queue(config, url=make_replay_queue(config, "r"))) as queue,
    ):
        main.send([b"main"])
        queue.send([b"run"])
        assert (tmp_path / "queue-replay-r-wal").exists()
        files = back_up(config, tmp_path / "backup", queue_only=True)
    assert [Path(each.file).name for each in files] == ["queue.db", "queue-replay-r"]
    assert bodies(*(Path(each.file) for each in files)) == [b"main", b"run"]


def test_a_moment_stays_as_it_was(tmp_path: Path) -> None:
    """What is committed between the look and the copy is not in the copy."""

    def rows(file: Path) -> list[Any]:
        with closing(sqlite3.connect(file)) as connection:
            return connection.execute("SELECT a FROM t").fetchall()

    source = tmp_path / "a.db"
    with closing(sqlite3.connect(source, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE t (a)")
        writer.execute("INSERT INTO t VALUES (1)")
        with closing(Moment(source)) as moment:
            writer.execute("INSERT INTO t VALUES (2)")
            moment.copy_to(tmp_path / "copy.db")
    assert rows(tmp_path / "copy.db") == [(1,)]
    assert rows(source) == [(1,), (2,)]
