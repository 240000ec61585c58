"""Pages whose every command is carried out, on the page's own files."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import TYPE_CHECKING

import click
import pytest

from tallgrass.cli.main import COMMANDS
from tallgrass.config import load_config
from tests.documents.markdown import DOCS, ROOT, all_documents, read
from tests.documents.page_runner import Folder, Step, require_shown, steps
from tests.ops.test_systemd import require_readable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Each page, and how many commands it shows: none can be overlooked.
PAGES = {
    "tutorial.md": 19,
    "how-to/add-a-dataset.md": 5,
    "how-to/publish.md": 5,
    "how-to/many-workers.md": 4,
    "how-to/backup.md": 12,
    "how-to/upgrade.md": 4,
    "how-to/tune.md": 3,
    "concepts/unit.md": 4,
}
#: Pages that other tests carry out, command by command.
PLAYED_BY = {
    "test_pages_run.py": ("how-to/postgresql.md",),
    "test_runbooks.py": tuple(
        f"replay/runbooks/{path.name}" for path in sorted((DOCS / "replay/runbooks").glob("*.md"))
    ),
    "test_pages_in_a_demo.py": (
        "concepts/datasets.md", "concepts/poison-messages.md",
        "governance/actors-and-approvals.md", "governance/policies.md",
        "how-to/aws.md", "how-to/backfill.md", "how-to/catalog.md",
        "how-to/reconcile.md", "how-to/retention.md",
        "how-to/telemetry-files.md", "how-to/verify.md",
        "replay/replay-engine/replay-cli-usage.md", "replay/replay-engine/replay-engine.md",
    ),
}  # fmt: skip
#: Pages whose commands need somebody else's machine, a service manager or a server that runs on;
#: their calls are read by the command line, and these tests run the same commands elsewhere.
RUN_ELSEWHERE = {
    "concepts/messages.md": "tests/cli/test_inspect.py",
    "how-to/console.md": "tests/cli/test_console.py",
    "how-to/follow.md": "tests/cli/test_follow.py",
    "how-to/held-back.md": "tests/api/test_dead_letters.py",
    "how-to/inspect.md": "tests/cli/test_inspect_object.py",
    "how-to/monitoring.md": "tests/cli/test_metrics.py",
    "how-to/node-effects.md": "tests/cli/test_nodes_failed.py",
    "how-to/nodes.md": "tests/cli/test_nodes.py",
    "how-to/pgstac.md": "tests/projection/test_command.py",
    "how-to/release.md": "tests/release/test_build.py",
    "how-to/replay-in-the-console.md": "tests/api/test_replays.py",
    "how-to/services.md": "tests/ops/test_systemd.py",
    "how-to/sinks.md": "tests/documents/test_sinks_page.py",
}
#: Parts of a dataset's file, of a package's metadata, and of the list of faults.
OTHER_TOML = r"^\[folders\]|^\[project|^\[\[fault"
_CODE = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: At the beginning of a line, perhaps after variables, and by any path.
_CALL = re.compile(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S+/)?tallgrass (.+)")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_the_page_does_what_it_shows(name: str, tmp_path: Path) -> None:
    """From the first block to the last, in one folder; what is shown is what is printed."""
    assert Folder(tmp_path).play(read(DOCS / name)) == PAGES[name]


def test_every_page_with_commands_is_run_somewhere() -> None:
    """A page that shows a command is in one of the lists, and what plays it is there."""
    showing = {
        path.relative_to(DOCS).as_posix() for path in TYPED if DOCS in path.parents
        and _CODE.search(read(path))
    }  # fmt: skip
    played = [page for pages in PLAYED_BY.values() for page in pages]
    listed = [*PAGES, *played, *RUN_ELSEWHERE]
    assert len(listed) == len(set(listed))
    assert set(listed) == showing
    for name, pages in PLAYED_BY.items():
        text = read(ROOT / "tests" / "documents" / name)
        assert name == "test_runbooks.py" or all(page.split("/")[-1] in text for page in pages)
    assert [name for name in RUN_ELSEWHERE.values() if not (ROOT / name).is_file()] == []


def test_the_page_on_postgresql_is_true(tmp_path: Path, postgres_url: str) -> None:
    """The same, on a server of the test's."""
    address = "postgresql://tallgrass@db.example/ledger"
    folder = Folder(tmp_path, replaced={address: postgres_url})
    assert folder.play(read(DOCS / "how-to" / "postgresql.md")) == 3


def command_lines(text: str) -> list[list[str]]:
    """Return the words of each call of tallgrass in a page's blocks of commands."""
    found = []
    for block in _CODE.findall(text):
        joined = re.sub(r"\\\n\s*", " ", block)
        for line in joined.splitlines():
            call = _CALL.match(line)
            if call is None:
                continue
            words = shlex.split(call[1], comments=True)
            stop = next((i for i, w in enumerate(words) if w in {"|", ">", "&&", "<", ";"}), None)
            found.append(words[:stop])
    return found


def require_call(words: list[str]) -> None:
    """Let the command line read the words; a file that is not there is no fault of a page."""
    while words and words[0] in {"--config", "--database"}:
        words = words[2:]
    if not words or words[0] not in COMMANDS:
        assert words[0] in {"--version", "--help", "console"}, words
        return
    try:
        require_readable(words)
    except click.BadParameter as error:
        if not re.search(r"does not exist|No such file", error.message):
            raise


#: What the command line itself prints as usage, with [OPTIONS], is no call.
TYPED = [path for path in all_documents() if path.name != "cli.md"]


@pytest.mark.parametrize("path", TYPED, ids=lambda path: path.name)
def test_commands_in_pages_can_be_typed(path: Path) -> None:
    """Every call of tallgrass in a block of commands is one that the command line reads."""
    for words in command_lines(read(path)):
        require_call(words)


def settings_shown() -> Iterator[tuple[str, str]]:
    """Yield each block of settings: TOML that is not said to be another file."""
    for path in TYPED:
        for text in re.findall(r"^```toml\n(.*?)^```$", read(path), re.DOTALL | re.MULTILINE):
            if not re.match(r"# \S+\.\w+\n", text) and not re.search(OTHER_TOML, text):
                yield path.name, text


@pytest.mark.parametrize(("name", "text"), list(settings_shown()))
def test_settings_in_pages_can_be_used(name: str, text: str, tmp_path: Path) -> None:
    """Every block of settings is accepted as it stands, and each key in it is a known one."""
    file = tmp_path / "tallgrass.toml"
    file.write_text(text, encoding="utf-8")
    tables = tomllib.loads(text)
    assert tables, name
    # What is not known, or cannot be, is refused.
    load_config(file=file, environment={})


def test_commands_are_found_where_they_stand() -> None:
    """The premise of the test above: pages have calls, in all forms that shells allow."""
    lines = "A=1 tallgrass status | head", "/opt/x/bin/tallgrass --config a init   # then edit"
    block = "```sh\n{}\n{}\n```\n".format(*lines)
    assert command_lines(block) == [["status"], ["--config", "a", "init"]]
    assert sum(len(command_lines(read(path))) for path in TYPED) > 80
    with pytest.raises(click.NoSuchOption):
        require_call(["status", "--nope"])


def test_a_page_that_shows_something_else_is_found() -> None:
    """The premise of the runner: lines count, and so does their order."""
    (step,) = steps("$ echo a\n> b\none\n…\ntwo\n")
    assert step == Step("echo a\nb", ("one", "…", "two"))
    require_shown(step, "zero\none\nmore\ntwo\n")
    for printed in ("one\n", "two\none\n"):
        with pytest.raises(AssertionError, match="not printed"):
            require_shown(step, printed)
