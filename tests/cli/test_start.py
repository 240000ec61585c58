"""Starting up, help, and how every command fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import pytest

from tallgrass.cli.main import COMMANDS, cli, run
from tallgrass.cli.text import duration
from tallgrass.error_codes import registry
from tests.cli.command import PROGRAM, environment
from tests.cli.command import tallgrass as run_tallgrass

#: Here every process is started, none is forked.
tallgrass = partial(run_tallgrass, fresh=True)


def walk(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the names of all commands below one, groups included."""
    found = [path]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += walk(child, (*path, name))
    return found


def command_of(path: tuple[str, ...]) -> click.Command:
    """Return the command that a path of names leads to."""
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        child = command.get_command(click.Context(command), name)
        assert child is not None
        command = child
    return command


ALL = walk(cli)


def test_the_list_of_commands_is_complete() -> None:
    """Every verb of the manual is there, by its name."""
    assert {" ".join(path) for path in ALL if len(path) == 2} == {
        "db migrate", "db check", "db backup",
        "wal list", "wal show", "wal history", "wal stats", "wal annotate", "wal export",
        "wal import",
        "queue status", "poison list", "poison show", "poison feed",
        "datasets list", "datasets show", "datasets check", "datasets new",
        "audit list", "audit seal", "audit verify",
        "retention plan", "retention apply", "retention list", "retention show",
        "retention search",
        "config show", "config check", "aws plan", "metrics serve", "telemetry export",
        "outbox dispatch", "outbox status", "outbox list", "outbox show", "outbox requeue",
        "outbox ledger",
        "inspect message", "inspect key", "inspect object",
        "replay runs", "replay diff",
        "dlq classify", "dlq plan", "dlq drain", "dlq report", "dlq close",
        "quarantine list", "quarantine show", "quarantine hold", "quarantine release",
        "actors add", "actors rotate", "actors revoke", "actors list",
        "approvals request", "approvals list", "approvals show", "approvals approve",
        "approvals reject", "switches list", "switches on", "switches off",
        "freeze on", "freeze off",
        "nodes runs", "nodes show", "nodes rebuild", "nodes cache", "nodes budget",
        "nodes plan-clear", "nodes clear-failed", "nodes plan-rerun",
        "changes open", "changes list", "changes show", "changes close",
        "incidents open", "incidents list", "incidents show", "incidents close",
        "stac export", "stac validate", "stac serve", "stac project", "stac collections",
        "release verify",
    }  # fmt: skip
    assert {path[0] for path in ALL if path} == {
        "demo", "init", "aws", "doctor", "ingest", "backfill", "follow", "status", "slo",
        "simulate", "db", "wal", "queue", "poison", "datasets", "audit", "config", "explain",
        "inspect", "outbox", "reconcile", "replay", "dlq", "quarantine", "stac", "verify", "nodes",
        "metrics", "actors", "approvals", "switches", "freeze", "changes", "incidents", "retention",
        "telemetry", "release", "console",
    }  # fmt: skip


#: Their answers are HTTP.
SERVERS = {("stac", "serve"), ("metrics", "serve"), ("console",)}


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "tallgrass")
def test_every_help_has_an_example(path: tuple[str, ...]) -> None:
    """`--help` of each command ends with a line that can be typed as it stands."""
    command = command_of(path)
    # A command remembers its help option: others in this process must see the shipped one.
    text = command.get_help(click.Context(command, info_name="x", **cli.context_settings))
    assert "Example" in text
    assert "tallgrass" in text.split("Example", 1)[1]
    if not isinstance(command, click.Group) and path not in SERVERS:
        assert "--output" in text


#: Options of what is done under governance, and their longer names.
GOVERNED = {
    "--change": "--change-ref",
    "--incident": "--incident-ref",
    "--approval": "--approval-id",
    "--yes": "--confirm",
}


def test_options_of_governance_are_alike_in_every_verb() -> None:
    """Whoever knows one verb knows the others: either name is understood wherever one is."""
    having: dict[str, int] = dict.fromkeys(GOVERNED, 0)
    for path in ALL:
        for option in command_of(path).params:
            for short, long in GOVERNED.items():
                if {short, long} & set(option.opts) and path != ("nodes", "cache", "clear"):
                    assert option.opts == [short, long], path
                    having[short] += 1
    assert having == {"--change": 3, "--incident": 3, "--approval": 5, "--yes": 2}


#: Groups that are no command themselves.
GROUPS = {
    path: group
    for path in ALL
    if isinstance(group := command_of(path), click.Group) and not group.invoke_without_command
}


@pytest.mark.parametrize("path", GROUPS, ids=lambda path: " ".join(path) or "tallgrass")
def test_a_group_without_a_command_shows_its_help(
    path: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever types half a command sees the other halves; nothing is told as an error of theirs."""
    assert run(path) == 2
    told = capfd.readouterr().err
    assert told.startswith("Usage: tallgrass")
    assert all(name in told for name in GROUPS[path].list_commands(click.Context(GROUPS[path])))
    assert "error:" not in told


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (3_600, "1 h"),
     (3_661, "1 h 1 min"), (86_400, "1 d"), (14_497_941, "167 d 19 h"), (1e8, "1,157 d 9 h")],
)  # fmt: skip
def test_a_time_span_is_told_as_people_say_it(seconds: float, said: str) -> None:
    """Two units at most: nobody reads fourteen million seconds."""
    assert duration(seconds) == said


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    """The lines that need no import are the first lines of the commands' own help."""
    for name, line in COMMANDS.items():
        assert command_of((name,)).get_short_help_str(limit=200) == line


def test_help_loads_neither_drivers_nor_tables() -> None:
    """`tallgrass --help` imports no database driver, no rich and no command's module."""
    code = (
        "import sys; sys.argv = ['tallgrass', '--help']\n"
        "from tallgrass.cli.main import run\n"
        "assert run(['--help']) == 0\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('rich', 'sqlite3', 'psycopg')"
        " or m.startswith(('tallgrass.storage', 'tallgrass.bootstrap'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env=environment()
    )
    assert done.stdout.decode().splitlines()[-1] == "[]"


def test_version_is_the_package_s() -> None:
    """`--version` names program and version."""
    done = tallgrass("--version")
    assert (done.code, done.out) == (0, "tallgrass, version 0.1.0\n")


@pytest.mark.parametrize(
    "args",
    [
        ("wla",),
        ("wal", "lst"),
        ("wal", "list", "--limit", "0"),
        ("wal", "list", "--limit", "1001"),
        ("wal", "list", "--nope"),
        ("wal", "show"),
        ("wal", "import", "no-such-file", "--actor", "j.doe"),
        ("wal", "import", "-"),
        ("explain",),
        ("explain", "io_error", "--list"),
        ("audit", "list", "--after", "-1"),
        ("demo", "--units", "0"),
        ("ingest", "--once", "--drain"),
        ("ingest", "--processes", "0"),
        ("simulate",),
        ("retention", "show", "9223372036854775808"),
        ("--database", "mysql://u:secret@h/d", "wal", "list"),
    ],
    ids=" ".join,
)
def test_bad_arguments_end_with_2(args: tuple[str, ...], tmp_path: Path) -> None:
    """Arguments that cannot be used: exit code 2, told on stderr, in words and as JSON."""
    done = tallgrass(*args, cwd=tmp_path)
    assert done.code == 2
    assert done.out == ""
    assert "error: " in done.err
    assert "what to do: " in done.err
    assert "tallgrass explain " in done.err
    as_json = tallgrass(*args, "--output", "json", cwd=tmp_path)
    assert (as_json.code, as_json.out) == (2, "")
    assert as_json.error["code"] in ("invalid_input", "config_invalid")
    assert "secret" not in done.err + as_json.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("size_zero", "a unit"),
        ("config_invalid", "a command"),
        ("plan_missing", "a refusal, or what was left out"),
        ("kill_switch_active", "a refusal, or what was left out"),
        ("code_not_replayed", "a plan, a report or the journal"),
        ("beyond_max_events", "a plan, a report or the journal"),
        ("never_notified", "a finding"),
    ],
)
def test_whatever_commands_name_is_explained(name: str, said: str) -> None:
    """Codes, guards, reasons and findings: what it means, what to do, and where it stands."""
    done = tallgrass("explain", name)
    assert (done.code, done.err) == (0, "")
    text = " ".join(done.out.split())
    assert f"stands on {said}" in text
    assert f"means {' '.join(registry()[name].meaning.split())}" in text
    assert tallgrass("explain", name, "--output", "json").json["code"] == name


def test_a_refusal_leads_to_its_guard(tmp_path: Path) -> None:
    """The line below the error names the rule, of which more is told."""
    database = f"sqlite:///{tmp_path / 't.db'}"
    assert tallgrass("db", "migrate", at=database).code == 0
    done = tallgrass("dlq", "drain", "--yes", "--actor", "ann", at=database, cwd=tmp_path)
    assert (done.code, "(tallgrass explain plan_missing)" in done.err) == (3, True), done.err


def numbers(command: click.Command) -> list[click.Option]:
    """Return the options of a command that take numbers with a fraction."""
    return [
        option
        for option in command.params
        if isinstance(option, click.Option) and option.type.name.startswith("float")
    ]


@pytest.mark.parametrize("path", [path for path in ALL if numbers(command_of(path))], ids=" ".join)
@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "1e999"])
def test_what_cannot_be_counted_with_is_no_number(path: tuple[str, ...], word: str) -> None:
    """A rate, a rest or an age of `nan` would pass every bound and hold back nothing."""
    command = command_of(path)
    for option in numbers(command):
        with pytest.raises(click.BadParameter):
            option.type_cast_value(click.Context(command), word)


def test_a_mistyped_command_gets_the_nearest_name() -> None:
    """The error names the command that was likely meant."""
    assert "Did you mean 'wal'?" in tallgrass("wla").err


def test_bytes_that_are_no_text_are_refused() -> None:
    """An argument that is not UTF-8 is a bad argument, not a crash."""
    done = subprocess.run(
        [*PROGRAM, "wal", "show", b"s3://b/\xff"],
        capture_output=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 2
    assert b"not UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


def test_an_unexpected_error_is_told_without_a_traceback() -> None:
    """A fault in a command gives internal_error and exit code 1; `--debug` shows where."""
    code = (
        "import sys\n"
        "from tallgrass.cli import explain, main\n"
        "def broken(*_args, **_options): raise ZeroDivisionError('on purpose')\n"
        "explain.command.callback = broken\n"
        "sys.exit(main.run(sys.argv[1:]))"
    )

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *args],
            capture_output=True,
            check=False,
            text=True,
            env=environment(),
        )

    told = run("explain", "io_error")
    assert told.returncode == 1
    assert "ZeroDivisionError: on purpose" in told.stderr
    assert "internal_error" in told.stderr
    assert "Traceback" not in told.stderr
    as_json = run("explain", "io_error", "--output=json")
    assert json.loads(as_json.stderr)["error"]["code"] == "internal_error"
    assert "Traceback" in run("--debug", "explain", "io_error").stderr


@pytest.mark.parametrize("command", ["explain --list", "demo --units 5 --dir {folder}"])
def test_a_reader_that_goes_away_is_no_error(command: str, tmp_path: Path) -> None:
    """With nobody left to read stdout the command ends quietly with 141, at its first words too."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*PROGRAM, *command.format(folder=tmp_path / "demo").split()],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        env=environment(),
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_behind_stdout_is_told() -> None:
    """Output that cannot be written is an error with a code, not silence."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, "explain", "--list"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env=environment(),
        )
    assert done.returncode == 1
    assert b"output_failed" in done.stderr
    assert b"Traceback" not in done.stderr


def test_ctrl_c_ends_with_130() -> None:
    """SIGINT in the middle of a command: one line, exit code 130."""
    child = subprocess.Popen(
        [*PROGRAM, "wal", "import", "-", "--actor", "j.doe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert child.stdin is not None
    # More than a pipe holds: when this returns, the command is reading.
    child.stdin.write(b"x" * 1_000_000)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert (child.returncode, out) == (130, b"")
    assert b"interrupted" in err
    assert b"Traceback" not in err


def test_explain_tells_a_code_from_the_registry() -> None:
    """The entry says what the code means, what to do, and whether a unit is retried."""
    entry = tallgrass("explain", "io_error", "--output", "json").json
    assert entry == {
        "code": "io_error",
        "scope": "unit",
        "retried": True,
        "meaning": "Reading or writing failed.",
        "remedy": "Look at disk and network; it is retried.",
        "cause": "infra",
    }
    assert "Reading or writing failed." in tallgrass("explain", "io_error").out


def test_explain_lists_all_codes() -> None:
    """`--list` shows each code once, those of units and those of commands."""
    codes = [e["code"] for e in tallgrass("explain", "--list", "--output", "json").json["codes"]]
    assert len(codes) == len(set(codes))
    assert {"io_error", "lease_expired", "schema_missing", "internal_error"} <= set(codes)
    table = tallgrass("explain", "--list").out
    assert all(code in table for code in codes)


def test_explain_suggests_the_nearest_code() -> None:
    """A mistyped code is a bad argument with a suggestion."""
    done = tallgrass("explain", "io_eror", "--output", "json")
    assert done.code == 2
    assert done.error["code"] == "unknown_code"
    assert "did you mean 'io_error'" in done.error["message"]


def test_a_missing_option_is_told_with_its_choices_on_one_line() -> None:
    """The choices are words to type; no escape stands between them."""
    done = tallgrass("actors", "add", "j.doe")
    assert done.code == 2
    assert "'--role'. Choose from: viewer, operator, approver\n" in done.err


@pytest.mark.parametrize("stream", [0, 1, 2])
@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("explain", "io_error"), 0),
        (("explain", "no_such_code"), 2),
        (("inspect", "message", "-"), 1),
        (("replay", "--dataset", "hrrr", "--since", "2026-06-01", "--reason", "test"), 2),
    ],
)
def test_a_closed_stream_is_an_empty_one(stream: int, args: tuple[str, ...], code: int) -> None:
    """Who closes a standard stream reads nothing and writes nowhere; the exit code still tells."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {stream}>&-', "sh", *PROGRAM, *args],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env=environment(),
    )
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert b"internal_error" not in done.stderr
