"""The commands of the documents: which test plays those of a page, and which are run elsewhere.

A page's blocks of one language (`console`, `sh`) are played together, by one test, from the first
command to the last. A command that cannot be run here, since it changes the machine or needs
somebody else's program, is in `ELSEWHERE` with the reason and the test that runs the same.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from pathlib import Path

from tests.documents.markdown import DOCS, ROOT, all_documents, read

_BLOCK = re.compile(
    r"^```(?P<language>sh|console)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)  # fmt: skip
_COMMENT = re.compile(r"\s+# .*$")
#: What the command line itself prints as usage, with [OPTIONS], is no call.
TYPED = [path for path in all_documents() if path.name != "cli.md"]


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """Commands that no test of a page runs."""

    pattern: str
    why: str
    #: The test that runs the same, and words of it that show so.
    test: str
    words: tuple[str, ...]


ELSEWHERE = (
    Elsewhere(
        pattern=r"(\S+/)?pip install |python3 -m venv ",
        why="It would fetch packages; a wheel in an environment of its own is tried elsewhere.",
        test="tests/release/test_wheel.py::test_the_demo_works_from_an_empty_folder",
        words=("venv", "pip"),
    ),
    Elsewhere(
        pattern=r"make (run|test|help)\b",
        why="It would call this test.",
        test="tests/repository/test_repository_files.py::test_each_make_target_exists_and_is_explained",
        words=("--dry-run",),
    ),
    Elsewhere(
        pattern=r"make release\b",
        why="It takes a minute, and is made from a checkout of its own.",
        test="tests/release/test_build.py::test_the_release_is_whole_and_signed",
        words=("tools.release", "KEY"),
    ),
    Elsewhere(
        pattern=r"(useradd|install|system\S+|/opt/tallgrass/bin/tallgrass) |cp ops/systemd/",
        why="It changes the machine: users, files below /etc, services.",
        test="tests/ops/test_systemd.py::test_a_service_starts_a_command_that_exists",
        words=("ExecStart", "/opt/tallgrass/bin/tallgrass", "/etc/tallgrass"),
    ),
    Elsewhere(
        pattern=r"docker |printf 'DB_PASSWORD=",
        why="It needs docker, and images from the network.",
        test="tests/ops/test_container.py::test_a_service_runs_a_command_that_exists",
        words=("compose.yaml", "Containerfile", "DB_PASSWORD"),
    ),
    Elsewhere(
        pattern=r"export \w+=postgresql://tallgrass@db/|tallgrass stac project --migrate",
        why="It needs PostGIS; the test is skipped where that is not installed.",
        test="tests/projection/test_command.py::test_pgstac_is_made_on_request_alone",
        words=('"project"', "--migrate"),
    ),
    Elsewhere(
        pattern=r"tallgrass stac project --follow",
        why="As above.",
        test="tests/projection/test_command.py::test_following_copies_what_comes_and_stops_when_told",
        words=('"project"', "--follow"),
    ),
    Elsewhere(
        pattern=r"PGHOST=db .* uvicorn ",
        why="As above; the server is another project's.",
        test="tests/projection/test_stock_server.py::test_the_stock_server_serves_what_was_ingested",
        words=("uvicorn", "stac_fastapi.pgstac.app"),
    ),
)

_HERE = "tests/documents"
_RUN = "tests/documents/test_pages_run.py::test_every_command_of_the_page_does_what_it_shows"
_DEMO = "tests/documents/test_pages_in_a_demo.py"
_LIVE = "tests/documents/test_pages_that_run_on.py"
_SERVERS = "tests/documents/test_pages_with_servers.py"
#: Each page's blocks of a language, and the test that plays them.
PLAYED = {
    ("../README.md", "console"): _RUN,
    ("tutorial.md", "console"): _RUN,
    ("how-to/add-a-dataset.md", "console"): _RUN,
    ("how-to/publish.md", "console"): _RUN,
    ("how-to/many-workers.md", "console"): _RUN,
    ("how-to/backup.md", "console"): _RUN,
    ("how-to/upgrade.md", "console"): _RUN,
    ("how-to/tune.md", "console"): _RUN,
    ("concepts/unit.md", "console"): _RUN,
    **{
        (path.relative_to(DOCS).as_posix(), "console"): (
            "tests/documents/test_runbooks.py::test_every_command_is_carried_out"
        )
        for path in sorted((DOCS / "replay" / "runbooks").glob("*.md"))
    },
    ("concepts/datasets.md", "console"): (
        f"{_DEMO}::test_a_dataset_of_ones_own_begins_with_a_good_file"
    ),
    ("concepts/messages.md", "console"): f"{_DEMO}::test_what_sqs_hands_out_is_inspected",
    ("concepts/poison-messages.md", "console"): (
        f"{_DEMO}::test_poison_is_fed_again_once_its_dataset_is_known"
    ),
    ("governance/actors-and-approvals.md", "console"): f"{_DEMO}::test_two_people_and_a_freeze",
    ("governance/policies.md", "console"): f"{_DEMO}::test_a_unit_leaves_quarantine_by_one_way",
    ("how-to/aws.md", "sh"): f"{_DEMO}::test_a_stack_is_planned_deployed_and_checked",
    ("how-to/backfill.md", "console"): (
        f"{_DEMO}::test_a_backfill_brings_in_what_no_message_brought"
    ),
    ("how-to/catalog.md", "sh"): f"{_DEMO}::test_the_catalog_is_served_exported_and_validated",
    ("how-to/inspect.md", "sh"): f"{_DEMO}::test_keys_and_files_are_explained",
    ("how-to/node-effects.md", "console"): f"{_DEMO}::test_a_failed_node_is_cleared",
    ("how-to/nodes.md", "sh"): f"{_DEMO}::test_runs_of_nodes_are_looked_at",
    ("how-to/reconcile.md", "console"): (
        f"{_DEMO}::test_reconciling_ends_with_1_where_something_is_amiss"
    ),
    ("how-to/release.md", "console"): f"{_DEMO}::test_a_release_is_checked",
    ("how-to/retention.md", "console"): f"{_DEMO}::test_old_rows_leave_for_an_archive",
    ("how-to/sinks.md", "sh"): f"{_DEMO}::test_a_secret_is_made",
    ("how-to/telemetry-files.md", "console"): f"{_DEMO}::test_telemetry_is_exported_for_a_release",
    ("how-to/verify.md", "console"): f"{_DEMO}::test_the_catalog_is_what_its_evidence_gives",
    ("reference/telemetry.md", "sh"): f"{_DEMO}::test_the_log_is_filtered",
    ("replay/replay-engine/replay-cli-usage.md", "console"): (
        f"{_DEMO}::test_a_selection_file_gives_a_plan"
    ),
    ("replay/replay-engine/replay-engine.md", "console"): f"{_DEMO}::test_runs_and_drains",
    ("how-to/console.md", "sh"): f"{_LIVE}::test_the_console_and_its_api",
    ("how-to/held-back.md", "sh"): f"{_LIVE}::test_the_console_and_its_api",
    ("how-to/replay-in-the-console.md", "sh"): f"{_LIVE}::test_the_console_and_its_api",
    ("how-to/dispatch.md", "sh"): f"{_LIVE}::test_events_are_delivered",
    ("how-to/monitoring.md", "console"): f"{_LIVE}::test_the_pipeline_is_watched",
    ("how-to/follow.md", "console"): f"{_SERVERS}::test_a_bucket_is_followed",
    ("how-to/many-workers.md", "sh"): f"{_SERVERS}::test_workers_on_sqs_and_postgresql",
    ("concepts/queues.md", "sh"): f"{_SERVERS}::test_workers_on_sqs_and_postgresql",
    ("how-to/postgresql.md", "sh"): f"{_SERVERS}::test_a_ledger_from_its_role_to_its_backup",
    ("how-to/postgresql.md", "console"): f"{_SERVERS}::test_a_ledger_from_its_role_to_its_backup",
    ("how-to/backup.md", "sh"): f"{_SERVERS}::test_a_ledger_from_its_role_to_its_backup",
}  # fmt: skip
#: Pages whose commands are all run elsewhere.
NOT_PLAYED = {
    ("../CONTRIBUTING.md", "console"),
    ("how-to/pgstac.md", "sh"),
    ("how-to/services.md", "sh"),
}

#: Each page with Python, and the test that runs it.
PYTHON = {
    "../CONTRIBUTING.md": f"{_HERE}/test_pages_run.py::test_the_marker_to_copy_is_one",
    "governance/policies.md": f"{_DEMO}::test_a_publisher_knows_the_policies",
    "how-to/node-effects.md": "tests/nodes/test_effects_page.py::test_the_examples_run",
    "how-to/node-graphs.md": "tests/nodes/test_graphs_page.py::test_the_page_s_graph_runs",
    "how-to/node-policies.md": "tests/nodes/test_policies_page.py::test_the_example_runs",
    "how-to/nodes.md": "tests/nodes/test_page.py::test_the_example_runs",
    "how-to/publish.md": _RUN,
    "how-to/sinks.md": "tests/documents/test_sinks_page.py::test_the_example_of_a_sink_is_one",
    "idempotency/outbox.md": (
        f"{_HERE}/test_idempotency.py::test_the_python_of_the_outbox_page_runs"
    ),
}  # fmt: skip


def name_of(path: Path) -> str:
    """Return a page's name from the folder of documents."""
    return Path(os.path.relpath(path, DOCS)).as_posix()


def text_of(page: str) -> str:
    """Return a page, named from the folder of documents."""
    return read(DOCS / page)


def elsewhere(line: str) -> Elsewhere | None:
    """Return where a command is run, if not by the test of its page."""
    return next((each for each in ELSEWHERE if re.match(each.pattern, line)), None)


def commands(page: str, *languages: str) -> list[str]:
    """Return the commands of a page's blocks, whole, without prompts and comments."""
    found: list[str] = []
    for block in _BLOCK.finditer(text_of(page)):
        if languages and block["language"] not in languages:
            continue
        lines = re.sub(r"\\\n\s*", "", block["body"]).splitlines()
        prompted = any(line.startswith("$ ") for line in lines)
        found += [
            _COMMENT.sub("", line.removeprefix("$ "))
            for line in lines
            if line and not line.startswith("# ") and (not prompted or line.startswith("$ "))
        ]
    return found


def played(page: str, *languages: str) -> list[str]:
    """Return those that the test of the page runs."""
    return [line for line in commands(page, *languages) if elsewhere(line) is None]


def pages_with_commands() -> set[tuple[str, str]]:
    """Return every page and language of which there is a command."""
    return {
        (name, language)
        for name in map(name_of, TYPED)
        for language in ("console", "sh")
        if commands(name, language)
    }


def function_of(test: str) -> str:
    """Return the text of a test's function, or of the table that it is given its cases from."""
    path, _, name = test.partition("::")
    source = read(ROOT / path)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_source_segment(source, node) or ""
    raise AssertionError(f"there is no test {test}")
