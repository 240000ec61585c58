"""`tallgrass wal list|show|history|stats` on a ledger that is known by heart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.command import tallgrass, uri

if TYPE_CHECKING:
    from tests.support.backends import Backend

GLM = [uri(n) for n in range(5)]
HRRR = [uri(n, "hrrr") for n in (10, 11, 12)]
NEXRAD = [uri(20, "nexrad-l2")]
RUNNING = [uri(30)]


FILTERS: list[tuple[tuple[str, ...], list[str]]] = [
    ((), GLM + HRRR + NEXRAD + RUNNING),
    (("--dataset", "hrrr"), HRRR),
    (("--dataset", "hrrr", "--dataset", "nexrad-l2"), HRRR + NEXRAD),
    (("--dataset", "hrrr", "--dataset", "hrrr"), HRRR),
    (("--status", "succeeded"), GLM),
    (("--status", "failed", "--status", "pending"), HRRR[:2] + NEXRAD),
    (("--status", "in_progress"), RUNNING),
    (("--dataset", "hrrr", "--status", "quarantined"), HRRR[2:]),
    (("--since", "2026-01-01T00:03:40Z"), HRRR[1:] + NEXRAD + RUNNING),
    (("--until", "2026-01-01T00:00:40Z"), GLM[:2]),
    (("--since", "2026-01-01T01:00:20+01:00", "--until", "2026-01-01T00:01:00Z"), GLM[1:3]),
    (("--since", "2026-01-02"), []),
    (("--error-code", "size_zero"), [HRRR[1]]),
    (("--error-code", "io_error"), [GLM[4], HRRR[0]]),
    (("--stale",), [GLM[4]]),
    (("--stale", "--dataset", "hrrr"), []),
    (("--limit", "2"), GLM[:2]),
]


def test_each_filter_of_list(filled: Backend) -> None:
    """The records are those of the flags, in order of data time."""
    for flags, expected in FILTERS:
        done = tallgrass("wal", "list", *flags, "--output", "json", at=filled)
        assert done.code == 0
        assert set(done.json) == {"records", "next_cursor"}
        assert [record["object_uri"] for record in done.json["records"]] == expected, flags


def test_list_turns_pages_without_gap_or_repeat(filled: Backend) -> None:
    """Each page goes on after the cursor of the one before; the last has none."""
    seen: list[str] = []
    flags: tuple[str, ...] = ()
    pages = 0
    while True:
        page = tallgrass("wal", "list", "--limit", "4", *flags, "--output", "json", at=filled).json
        seen += [record["wal_id"] for record in page["records"]]
        pages += 1
        if page["next_cursor"] is None:
            break
        flags = ("--after", page["next_cursor"])
    assert pages == 3
    assert [(wal_id,) for wal_id in seen] == filled.sql(
        "SELECT wal_id FROM wal_records ORDER BY wal_id"
    )
    first = tallgrass("wal", "list", "--limit", "4", at=filled).out
    assert first.splitlines()[-1] == f"More: --after {seen[3]}"
    assert "More" not in tallgrass("wal", "list", at=filled).out


def test_the_table_of_list_in_a_pipe_is_one_line_a_record(filled: Backend) -> None:
    """A pipe gets whole values: a header, then wal_id, dataset, status … object, uncut."""
    lines = tallgrass("wal", "list", at=filled).out.splitlines()
    assert lines[0].split() == [
        "wal_id", "dataset", "status", "attempts", "data_from", "error", "object_uri",
    ]  # fmt: skip
    assert len(lines) == 11
    rows = [line.split() for line in lines[1:]]
    assert [row[6] for row in rows] == GLM + HRRR + NEXRAD + RUNNING
    assert rows[4][1:6] == ["goes-glm", "stale", "2", "2026-01-01T00:01:20.000000Z", "io_error"]
    assert "No records match" in tallgrass("wal", "list", "--dataset", "mrms", at=filled).out


@pytest.mark.parametrize("command", [("wal", "list"), ("quarantine", "list")])
def test_a_dataset_that_nobody_knows_is_refused(filled: Backend, command: tuple[str, str]) -> None:
    """A mistyped name is no empty list; a dataset without a file may have records still."""
    unknown = tallgrass(*command, "--dataset", "goes-gml", "--output", "json", at=filled)
    assert (unknown.code, unknown.error["code"]) == (2, "dataset_unknown")
    assert "goes-glm" in unknown.error["message"]
    filled.sql(
        "UPDATE wal_records SET dataset = 'gone', version = version + 1 WHERE dataset = 'hrrr'"
    )
    gone = tallgrass(*command, "--dataset", "gone", "--error-code", "not_ready", at=filled)
    assert gone.code == 0


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--status", "done"), "unknown_status"),
        (("--since", "yesterday"), "invalid_time"),
        (("--until", "2026-01-01T00:00:00"), "invalid_time"),
        (("--since", "2026-01-02", "--until", "2026-01-01"), "invalid_input"),
        (("--error-code", "io_eror"), "unknown_code"),
        (("--error-code", "schema_missing"), "unknown_code"),
        (("--after", "x"), "invalid_input"),
        (("--stale", "--status", "failed"), "invalid_input"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_values_that_mean_nothing_are_refused(flags: tuple[str, ...], code: str) -> None:
    """A filter that cannot be meant ends with 2 before a database is opened."""
    done = tallgrass("wal", "list", *flags, "--output", "json", at="sqlite:////no/where.db")
    assert done.code == 2
    assert done.error["code"] == code


@pytest.mark.conformance("C-54")
def test_show_tells_record_attempts_and_notes(filled: Backend) -> None:
    """By id or by URI: all fields of the record, each attempt, each note."""
    by_uri = tallgrass("wal", "show", uri(0), "--output", "json", at=filled)
    assert set(by_uri.json) == {"record", "lineage", "attempts", "annotations"}
    record = by_uri.json["record"]
    assert record["object_uri"] == uri(0)
    assert record["status"] == "succeeded"
    assert record["time_range_start"] == "2026-01-01T00:00:00.000000Z"
    assert record["version"] == 3
    (attempt,) = by_uri.json["attempts"]
    assert attempt["status"] == "applied"
    # Those of the attempt that was applied last.
    names = ("prov_activity_id", "openlineage_run_id")
    assert by_uri.json["lineage"] == {name: attempt[name] for name in names}
    assert None not in by_uri.json["lineage"].values()
    held = tallgrass("wal", "show", HRRR[2], "--output", "json", at=filled).json
    assert held["lineage"] == dict.fromkeys(names)
    assert attempt["evidence"] == '{"format":"netcdf"}'
    (note,) = by_uri.json["annotations"]
    assert (note["actor"], note["note"]) == ("j.doe", "looked at")
    assert tallgrass("wal", "show", record["wal_id"], "--output", "json", at=filled) == by_uri
    table = tallgrass("wal", "show", uri(0), at=filled).out
    assert record["wal_id"] in table
    assert "looked at" in table


def test_history_tells_every_edge(filled: Backend) -> None:
    """A unit that governance rejected: recorded, claimed, failed, quarantined; versions 1 to 4."""
    done = tallgrass("wal", "history", HRRR[2], "--output", "json", at=filled).json
    assert [
        (event["version"], event["kind"], event["from_status"], event["to_status"])
        for event in done["events"]
    ] == [
        (1, "recorded", None, "pending"),
        (2, "claimed", "pending", "in_progress"),
        (3, "failed", "in_progress", "failed"),
        (4, "quarantine", "failed", "quarantined"),
    ]
    by_id = tallgrass("wal", "history", done["wal_id"], at=filled).out
    assert "governance_hard_fail" in by_id


@pytest.mark.parametrize("verb", ["show", "history"])
def test_a_unit_that_is_not_there_ends_with_1(filled: Backend, verb: str) -> None:
    """An unknown id or object: record_unknown; a word that is neither: bad argument."""
    for name in ("s3://noaa-goes19/nothing.nc", "00000000-0000-8000-8000-000000000000"):
        done = tallgrass("wal", verb, name, "--output", "json", at=filled)
        assert (done.code, done.error["code"]) == (1, "record_unknown")
    assert tallgrass("wal", verb, "nothing", at=filled).code == 2


def test_stats_count_what_the_tables_hold(filled: Backend) -> None:
    """By dataset and status, zeros included; what is due now; who works."""
    stats = tallgrass("wal", "stats", "--output", "json", at=filled).json
    assert set(stats) == {"total", "by_dataset", "stale", "due", "oldest_due_at", "live_workers"}
    nothing = dict.fromkeys(("pending", "in_progress", "succeeded", "failed", "quarantined"), 0)
    assert stats["total"] == 10
    assert stats["by_dataset"] == {
        "goes-glm": {**nothing, "succeeded": 5, "in_progress": 1},
        "hrrr": {**nothing, "failed": 2, "quarantined": 1},
        "nexrad-l2": {**nothing, "pending": 1},
    }
    assert stats["stale"] == {"goes-glm": 1}
    assert stats["live_workers"] == 1
    assert stats["due"] >= 1
    table = tallgrass("wal", "stats", at=filled).out
    assert [line.split() for line in table.splitlines() if line.startswith("all")] == [
        ["all", "1", "1", "5", "2", "1", "10"]
    ]


def test_a_note_is_written_to_an_attempt_and_shown(filled: Backend) -> None:
    """It stands behind the earlier one, with who wrote it; the attempt stays as it is."""
    before = filled.sql("SELECT * FROM wal_attempts ORDER BY wal_id, attempt_no")
    note = ("wal", "annotate", uri(0), "1", "--note", "seen again", "--actor", "j.doe")
    done = tallgrass(*note, at=filled)
    assert done.code == 0, done.err
    shown = tallgrass("wal", "show", uri(0), "--output", "json", at=filled).json
    assert done.out.strip() == f"Noted on attempt 1 of {shown['record']['wal_id']}."
    notes = [(each["note"], each["actor"], each["kind"]) for each in shown["annotations"]]
    assert notes == [("looked at", "j.doe", "note"), ("seen again", "j.doe", "note")]
    assert filled.sql("SELECT * FROM wal_attempts ORDER BY wal_id, attempt_no") == before
    told = tallgrass(*note[:-4], "--note", "x", "--actor", "ann", "--output", "json", at=filled)
    assert told.json == {
        "wal_id": shown["record"]["wal_id"], "attempt_no": 1, "actor": "ann", "note": "x",
    }  # fmt: skip


def test_a_note_that_cannot_be_written_is_refused(filled: Backend) -> None:
    """No such attempt, no such unit, no words, no author: nothing is written."""
    for args, code in (
        ((uri(0), "2", "--note", "x", "--actor", "a"), 2),
        ((uri(0), "0", "--note", "x", "--actor", "a"), 2),
        ((uri(99), "1", "--note", "x", "--actor", "a"), 1),
        ((uri(0), "1", "--note", " ", "--actor", "a"), 2),
        ((uri(0), "1", "--actor", "a"), 2),
        ((uri(0), "1", "--note", "x"), 2),
    ):
        assert tallgrass("wal", "annotate", *args, at=filled).code == code, args
    assert filled.sql("SELECT note FROM wal_annotations") == [("looked at",)]
