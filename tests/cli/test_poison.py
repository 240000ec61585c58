"""`tallgrass poison`: list, show and feed as real processes on both databases."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tallgrass.intake.message import PoisonMessage
from tests.cli.command import Done, tallgrass
from tests.cli.test_terminal import on_terminal
from tests.pipeline.scene import message_of, thing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

QUEUE = "nodd-primary"
#: Understood by the datasets of now; stored as if their bucket had been unknown.
CLAIMED = message_of(thing(0).event())
CLAIMED_ELSEWHERE = message_of(thing(1).event(), number=1)
HOSTILE = 'evil\x1b[2J\x1b]0;owned\x07\n"\x9b31m\u202e[red]x[/red]"'.encode()
BINARY = b"\xff\xfe\x00\x1b[2J"
LONG = b"\xc3\xa9" * 550_000
BODIES = {
    1: (QUEUE, CLAIMED, "unroutable"),
    2: (QUEUE, HOSTILE, "invalid_input"),
    3: (QUEUE, BINARY, "invalid_input"),
    4: (QUEUE, LONG, "invalid_input"),
    5: ("second", CLAIMED_ELSEWHERE, "unroutable"),
}
#: As a new dataset file has it.
NEW_KEY = "data/KTLX/20260601_120000.nc"
WHO = ("--actor", "j.doe", "--reason", "CHG-2041")


@pytest.fixture
def poisoned(backend: Backend) -> Backend:
    """Five messages: claimed by now, hostile, binary, cut, and claimed but of another queue.

    Message N was last seen on day N of June 2026.
    """
    stores = backend.open()
    for number, (queue, body, code) in BODIES.items():
        stores.poison.put(
            [
                PoisonMessage(
                    queue=queue,
                    body=body,
                    message_id=f"m-{number}",
                    error_code=code,
                    error_message=f"why {number}",
                )
            ]
        )
        backend.sql(
            "UPDATE poison_messages SET first_seen_at = ?, last_seen_at = ? WHERE poison_id = ?",
            *[f"2026-06-0{number}T12:00:00.000000Z"] * 2,
            number,
        )
    stores.close()
    return backend


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    """Where the configured queue will be."""
    return tmp_path / "queue.db"


def poison(backend: Backend, *args: str, queue: Path | None = None, **options: Any) -> Done:
    """Run a verb; the queue is configured as everything is, by a variable."""
    env = {} if queue is None else {"TALLGRASS_QUEUE_URL": f"sqlite:///{queue}"}
    return tallgrass("poison", *args, at=backend, env={**env, **options.pop("env", {})}, **options)


def listed(backend: Backend, *flags: str) -> list[int]:
    """Return the numbers that a listing shows."""
    found = poison(backend, "list", *flags, "--output", "json").json
    return [message["poison_id"] for message in found["messages"]]


def waiting(queue: Path) -> dict[str, bytes]:
    """Return the messages in a queue's file, by plain SQL."""
    if not queue.exists():
        return {}
    with contextlib.closing(sqlite3.connect(queue)) as connection:
        found = connection.execute("SELECT message_id, body FROM messages").fetchall()
    return dict(found)


def rows(backend: Backend) -> list[tuple[Any, ...]]:
    """Return (id, feed, fed at, fed as) of all rows, by plain SQL."""
    return backend.sql(
        "SELECT poison_id, feed_id, fed_at, fed_message_id FROM poison_messages ORDER BY 1"
    )


def audit(backend: Backend) -> list[tuple[Any, ...]]:
    """Return the audit log, by plain SQL."""
    return backend.sql("SELECT actor, action, subject, reason FROM audit_log ORDER BY entry_id")


#: What each database is asked is tried on both by the store's own tests.
on_sqlite = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@on_sqlite
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--queue", "second"), [5]),
        (("--code", "unroutable"), [1, 5]),
        (("--since", "2026-06-04"), [4, 5]),
        (("--since", "2026-06-04T12:00:01Z"), [5]),
        (("--state", "fed"), []),
        (("--state", "open", "--code", "invalid_input"), [2, 3, 4]),
        (("--limit", "2"), [1, 2]),
        (("--limit", "2", "--after", "2"), [3, 4]),
    ],
)
def test_each_flag_of_a_listing_counts(
    poisoned: Backend, flags: tuple[str, ...], expected: list[int]
) -> None:
    """The messages that match, oldest first."""
    assert listed(poisoned, *flags) == expected


def test_a_listing_tells_what_was_kept(poisoned: Backend) -> None:
    """Queue, hash, size, error, count and times are those of the message that came."""
    found = poison(poisoned, "list", "--limit", "4", "--output", "json").json
    assert found["next_cursor"] == 4
    assert found["messages"][3] == {
        "poison_id": 4, "queue": QUEUE, "body_sha256": hashlib.sha256(LONG).hexdigest(),
        "body_bytes": 1_100_000, "kept_bytes": 1_048_576, "message_id": "m-4",
        "error_code": "invalid_input",
        "error_message": "why 4", "times_seen": 1, "first_seen_at": "2026-06-04T12:00:00.000000Z",
        "last_seen_at": "2026-06-04T12:00:00.000000Z", "feed_id": None, "fed_at": None,
        "fed_message_id": None, "state": "open", "cut": True,
    }  # fmt: skip
    out = poison(poisoned, "list").out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "4 open nodd-primary invalid_input 1 2026-06-04 12:00:00Z 1,100,000 why 4" in lines
    assert "More: --after" not in out
    some = ("--since", "2026-06-02", "--code", "invalid_input", "--queue", QUEUE, "--state", "open")
    assert listed(poisoned, *some) == [2, 3, 4]


@on_sqlite
def test_a_page_says_what_comes_after_it(poisoned: Backend) -> None:
    """The cursor of the next page, or that nothing matches."""
    assert "More: --after 2" in poison(poisoned, "list", "--limit", "2").out
    assert "No poison messages match." in poison(poisoned, "list", "--queue", "none").out


@on_sqlite
def test_a_body_is_shown_only_when_asked_for(poisoned: Backend) -> None:
    """Facts alone, or with the body: text as text, what is no text in base64, a cut one as such."""
    assert "body" not in poison(poisoned, "show", "1", "--output", "json").json
    whole = poison(poisoned, "show", "1", "--body", "--output", "json").json["body"]
    assert whole == {
        "encoding": "utf-8", "content": CLAIMED.decode(), "bytes": len(CLAIMED), "cut": False,
    }  # fmt: skip
    binary = poison(poisoned, "show", "3", "--body", "--output", "json").json["body"]
    assert binary["encoding"] == "base64"
    assert base64.b64decode(binary["content"]) == BINARY
    cut = poison(poisoned, "show", "4", "--body", "--output", "json").json["body"]
    assert (cut["content"], cut["bytes"], cut["cut"]) == ("\xe9" * 524_288, 1_048_576, True)
    told = poison(poisoned, "show", "4", "--body").out
    assert "Cut after 1,048,576 bytes of 1,100,000." in told
    assert "1,100,000 bytes, cut: only the first 1,048,576 are kept" in told
    assert "  00000000  ff fe 00 1b 5b 32 4a\n" in poison(poisoned, "show", "3", "--body").out


@on_sqlite
def test_a_body_cannot_steer_the_terminal(poisoned: Backend) -> None:
    """Neither a pipe nor a terminal gets a control character, in a table or in JSON."""
    for flags in ((), ("--output", "json")):
        piped = poison(poisoned, "show", "2", "--body", *flags)
        assert piped.code == 0
        for shown in (
            piped.out,
            on_terminal("--database", poisoned.url, "poison", "show", "2", "--body", *flags),
        ):
            for bad in ("\x1b[2J", "\x1b]0;", "\x07", "\x9b", "\u202e"):
                assert bad not in shown, (flags, bad)
        if flags:
            assert piped.json["body"]["content"].encode() == HOSTILE
        else:
            assert "  evil\\x1b[2J\\x1b]0;owned\\x07\n" in piped.out
            assert '  "\\x9b31m\\u202e[red]x[/red]"\n' in piped.out


@on_sqlite
@pytest.mark.parametrize("verb", [("show", "99"), ("feed", "99", "--dry-run")])
def test_a_message_that_is_not_there_is_told(poisoned: Backend, verb: tuple[str, ...]) -> None:
    """An error with a code and a remedy, and nothing beside it: no word that none waits."""
    done = poison(poisoned, *verb, "--output", "json")
    assert (done.code, done.out) == (1, "")
    assert done.error["code"] == "poison_unknown"
    assert "99" in done.error["message"]


def test_a_dry_run_tells_what_each_message_gives_now(poisoned: Backend, queue: Path) -> None:
    """Its units, or why it is still left out; nothing is written anywhere, not even a queue."""
    done = poison(poisoned, "feed", "--all", "--dry-run", "--output", "json", queue=queue)
    assert done.code == 0, done.err
    found = done.json
    assert (found["fed"], found["would_feed"]) == (0, 1)
    assert found["left_out"] == {"cut": 1, "not_understood": 2, "other_queue": 1}
    by_id = {message["poison_id"]: message for message in found["messages"]}
    (unit,) = by_id[1]["now"]["units"]
    assert (unit["dataset"], unit["object_uri"]) == ("goes-glm", thing(0).uri)
    assert len(unit["wal_id"]) == 36
    assert by_id[2]["now"]["error"]["code"] == "invalid_input"
    assert by_id[4]["now"] is None
    assert [by_id[n]["left_out"] for n in (1, 2, 4, 5)] == [
        None, "not_understood", "cut", "other_queue",
    ]  # fmt: skip
    assert not queue.exists()
    assert all(row[1:] == (None, None, None) for row in rows(poisoned))
    assert audit(poisoned) == []
    told = poison(poisoned, "feed", "--all", "--dry-run", queue=queue).out
    assert (
        "1 would be fed; 1 left out: cut; 2 left out: not_understood; 1 left out: other_queue."
        in told
    )


def test_what_is_understood_now_is_fed(poisoned: Backend, queue: Path) -> None:
    """The very bytes are in the queue, the row stays and says when and as which message."""
    done = poison(poisoned, "feed", "1", *WHO, "--output", "json", queue=queue)
    assert done.code == 0, done.err
    (message,) = done.json["messages"]
    assert done.json["fed"] == 1
    assert waiting(queue) == {message["message_id"]: CLAIMED}
    ((_, feed_id, fed_at, fed_as), *others) = rows(poisoned)
    assert feed_id is not None
    assert fed_at is not None
    assert fed_as == message["message_id"]
    assert [row[0] for row in others] == [2, 3, 4, 5]
    assert all(row[1:] == (None, None, None) for row in others)
    assert audit(poisoned) == [
        ("j.doe", "poison_feed", "poison:1", "CHG-2041"),
        ("j.doe", "poison_fed", "poison:1", "CHG-2041"),
    ]
    assert listed(poisoned, "--state", "fed") == [1]
    assert f"fed as message  {fed_as}" in poison(poisoned, "show", "1").out


def test_a_code_and_all_choose_among_what_waits(poisoned: Backend, queue: Path) -> None:
    """`--code` feeds what carries the code; `--all` then finds nothing of it left to feed."""
    first = poison(poisoned, "feed", "--code", "unroutable", *WHO, "--output", "json", queue=queue)
    assert (first.code, first.json["fed"]) == (0, 1)
    assert first.json["left_out"] == {"other_queue": 1}
    again = poison(poisoned, "feed", "--all", *WHO, "--output", "json", queue=queue)
    assert (again.code, again.json["fed"]) == (0, 0)
    assert again.json["left_out"] == {"cut": 1, "not_understood": 2, "other_queue": 1}
    assert list(waiting(queue).values()) == [CLAIMED]
    assert (
        "No poison message waits"
        in poison(poisoned, "feed", "--code", "size_zero", *WHO, queue=queue).out
    )


@on_sqlite
def test_the_name_of_the_queue_decides_whose_poison_is_fed(poisoned: Backend, queue: Path) -> None:
    """Messages go back to the queue they came from, by its configured name."""
    done = poison(
        poisoned, "feed", "--all", *WHO, "--output", "json",
        queue=queue, env={"TALLGRASS_QUEUE_NAME": "second"},
    )  # fmt: skip
    assert [m["poison_id"] for m in done.json["messages"] if m["message_id"]] == [5]
    assert list(waiting(queue).values()) == [CLAIMED_ELSEWHERE]


def test_what_is_left_out_can_be_forced_unless_it_was_cut(poisoned: Backend, queue: Path) -> None:
    """A named message that is refused ends with 3 and is in the audit log; the others are fed."""
    refused = poison(poisoned, "feed", "1", "2", *WHO, "--output", "json", queue=queue)
    assert refused.code == 3
    assert refused.error["code"] == "poison_not_fed"
    assert refused.json["left_out"] == {"not_understood": 1}
    assert audit(poisoned)[-1] == ("j.doe", "poison_feed_refused", "poison:2", "not_understood")
    twice = poison(poisoned, "feed", "1", *WHO, "--output", "json", queue=queue)
    assert (twice.code, twice.json["left_out"]) == (3, {"already_fed": 1})
    assert list(waiting(queue).values()) == [CLAIMED]
    forced = poison(
        poisoned, "feed", "1", "2", "4", "5", "--force", *WHO, "--output", "json", queue=queue
    )
    assert (forced.code, forced.json["fed"], forced.json["left_out"]) == (3, 3, {"cut": 1})
    expected = [CLAIMED, CLAIMED, CLAIMED_ELSEWHERE, HOSTILE]
    assert sorted(waiting(queue).values()) == sorted(expected)


@pytest.mark.parametrize(
    "args",
    [
        ("feed", *WHO),
        ("feed", "1", "--all", *WHO),
        ("feed", "--all", "--code", "unroutable", *WHO),
        ("feed", "1", "--actor", "j.doe"),
        ("feed", "1", "--reason", "why"),
        ("feed", "1", "--actor", " ", "--reason", "why"),
        ("feed", "--code", "unroutabel", *WHO),
        ("list", "--code", "unroutabel"),
        ("list", "--since", "yesterday"),
        ("show", "0"),
        ("show", "one"),
    ],
)
def test_bad_arguments_are_refused_before_anything(tmp_path: Path, args: tuple[str, ...]) -> None:
    """Two choices or none, nobody named, an unknown code or time: exit code 2, nothing opened."""
    done = tallgrass("poison", *args, "--output", "json", cwd=tmp_path)
    assert done.code == 2
    assert done.error["message"]
    assert list(tmp_path.iterdir()) == []


@on_sqlite
def test_a_queue_that_cannot_be_used_loses_nothing(poisoned: Backend, tmp_path: Path) -> None:
    """The message stays as it was; once the queue is there it is fed."""
    broken = tmp_path / "broken.db"
    broken.write_text("something else, long enough to be looked at" * 10)
    done = poison(poisoned, "feed", "1", *WHO, "--output", "json", queue=broken)
    assert done.code == 1
    assert done.error["code"] == "database_corrupt"
    assert rows(poisoned)[0] == (1, None, None, None)
    good = tmp_path / "queue.db"
    assert poison(poisoned, "feed", "--all", *WHO, queue=good).code == 0
    assert list(waiting(good).values()) == [CLAIMED]


def test_a_dataset_of_ones_own_brings_its_poison_into_the_catalog(
    backend: Backend, queue: Path, tmp_path: Path
) -> None:
    """Ingest stores what nobody claims; once a dataset file does, it is fed and ingested."""
    folder = tmp_path / "datasets"
    folder.mkdir()
    (folder / "my-radar.toml").write_text(tallgrass("datasets", "new", "my-radar").out)
    claimed = {"TALLGRASS_DATASETS_FOLDER": str(folder)}
    event = thing(0).event(bucket="my-radar-pds", key=NEW_KEY)
    opened = open_queue(load_config(environment={}, flags={"queue.url": f"sqlite:///{queue}"}))
    opened.send([message_of(event)])
    opened.close()

    def ingest(env: dict[str, str]) -> Any:
        flags = ("--queue", f"sqlite:///{queue}", "--objects", "event", "--once")
        done = tallgrass("ingest", *flags, "--output", "json", at=backend, env=env)
        assert done.code == 0, done.err
        return done.json

    assert ingest({})["poison"] == 1
    assert waiting(queue) == {}
    assert backend.sql("SELECT error_code FROM poison_messages") == [("unroutable",)]
    still = poison(backend, "feed", "--all", *WHO, "--output", "json", queue=queue)
    assert still.json["left_out"] == {"not_understood": 1}
    fed = poison(backend, "feed", "--all", *WHO, "--output", "json", queue=queue, env=claimed)
    assert fed.json["fed"] == 1, fed.err
    assert ingest(claimed)["poison"] == 0
    units = backend.sql("SELECT dataset, object_uri, status FROM wal_records")
    assert units == [("my-radar", f"s3://my-radar-pds/{NEW_KEY}", "succeeded")]
