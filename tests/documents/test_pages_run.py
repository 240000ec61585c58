"""Pages whose every command is carried out, on the page's own files."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import TYPE_CHECKING, Any

import click
import pytest

from tallgrass.cli.main import COMMANDS, cli
from tallgrass.config import load_config
from tests.documents.markdown import ROOT, all_documents, code_block, code_blocks, read
from tests.documents.page_commands import (
    ELSEWHERE,
    NOT_PLAYED,
    PLAYED,
    PYTHON,
    TYPED,
    commands,
    elsewhere,
    function_of,
    name_of,
    pages_with_commands,
    played,
    text_of,
)
from tests.documents.page_runner import Folder, Step, require_shown, steps
from tests.ops.test_systemd import require_readable
from tools.conformance_list import load_conformance_list

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Each page that is played in a folder of its own, and how many commands it shows.
PAGES = {
    "../README.md": 11,
    "tutorial.md": 19,
    "how-to/add-a-dataset.md": 5,
    "how-to/publish.md": 5,
    "how-to/many-workers.md": 4,
    "how-to/backup.md": 12,
    "how-to/upgrade.md": 4,
    "how-to/tune.md": 3,
    "concepts/unit.md": 4,
}
#: Parts of a dataset's file, of a package's metadata, and of the list of faults.
OTHER_TOML = r"^\[folders\]|^\[project|^\[\[fault"
#: What begins a word of the shell's own; and a call at the beginning of a line, perhaps after
#: variables, by any path.
_SHELL = re.compile(r"\d*[<>|&;]")
_CALL = re.compile(r"(?:[A-Z_]+=\S+ )*(?:\S+/)?tallgrass (.+)")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_the_page_does_what_it_shows(name: str, tmp_path: Path) -> None:
    """From the first block to the last, in one folder; what is shown is what is printed."""
    folder = tmp_path / "page"
    folder.mkdir()
    assert Folder(folder).play(text_of(name)) == PAGES[name]


# --- that nothing is left out ---------------------------------------------------------------------


def test_every_block_of_commands_is_played_by_a_test() -> None:
    """Each page and language is in the table; the test is there, and it names the page."""
    assert pages_with_commands() == PLAYED.keys() | NOT_PLAYED
    assert not PLAYED.keys() & NOT_PLAYED
    for (page, language), test in PLAYED.items():
        function = function_of(test)
        if test.endswith("::test_every_command_of_the_page_does_what_it_shows"):
            assert page in PAGES, page
        elif test.endswith("::test_every_command_is_carried_out"):
            assert page.startswith("replay/runbooks/")
        else:
            assert f'"{page}"' in function, (page, language, test)
    for page, language in NOT_PLAYED:
        assert played(page, language) == []


def test_what_is_run_elsewhere_says_why_and_where() -> None:
    """Each exception has a reason, matches a command, and leads to a test with the same words."""
    lines = [line for page, language in pages_with_commands() for line in commands(page, language)]
    for each in ELSEWHERE:
        assert any(re.match(each.pattern, line) for line in lines), each.pattern
        assert len(each.why) > 8
        assert function_of(each.test)
        module = read(ROOT / each.test.partition("::")[0])
        assert [word for word in each.words if word not in module] == [], each.test
    assert sum(elsewhere(line) is not None for line in lines) < len(lines) / 5


def test_every_page_with_python_is_run_by_a_test() -> None:
    """Each is in the table; the test is there, and its module names the page."""
    showing = {name_of(path) for path in TYPED if code_blocks(read(path), "python")}
    assert showing == PYTHON.keys()
    for page, test in PYTHON.items():
        assert function_of(test)
        assert page.rpartition("/")[2] in read(ROOT / test.partition("::")[0]), (page, test)


def test_the_marker_to_copy_is_one() -> None:
    """CONTRIBUTING.md: the test that is shown there can be pasted, and its id is in the list."""
    names: dict[str, Any] = {"pytest": pytest}
    exec(code_block(text_of("../CONTRIBUTING.md"), "python"), names)  # noqa: S102 - the page's own
    [marker] = names["test_a_stale_version_writes_nothing"].pytestmark
    assert set(marker.args) <= load_conformance_list().requirements.keys()


@pytest.mark.parametrize("path", all_documents(), ids=lambda path: path.name)
def test_code_is_fenced_and_says_its_language(path: Path) -> None:
    """What is only indented is looked at by no test."""
    outside = re.sub(r"^```\w+\n.*?^```$", "", read(path), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^```.*$|\n\n    \S.*", outside, re.MULTILINE) == []


# --- that commands and settings can be used -------------------------------------------------------


def calls(lines: list[str]) -> list[list[str]]:
    """Return the words of each call of tallgrass among lines of commands."""
    found = []
    for line in lines:
        call = _CALL.match(line)
        if call is None:
            continue
        words = shlex.split(call[1], comments=True)
        stop = next((i for i, word in enumerate(words) if _SHELL.match(word)), None)
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


@pytest.mark.parametrize("path", TYPED, ids=lambda path: path.name)
def test_commands_in_pages_can_be_typed(path: Path) -> None:
    """Every call of tallgrass in a block of commands is one that the command line reads."""
    for words in calls(commands(name_of(path))):
        require_call(words)


def inline_calls(text: str) -> list[list[str]]:
    """Return the words of each call of tallgrass that stands in a sentence or in a table."""
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return [code.split()[1:] for code in re.findall(r"`(tallgrass [^`\n]+)`", outside)]


@pytest.mark.parametrize("path", TYPED, ids=lambda path: path.name)
def test_commands_in_sentences_exist(path: Path) -> None:
    """Whoever types a verb and an option that a sentence names is understood."""
    for call in inline_calls(read(path)):
        command, words = named(call)
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        used = {word.partition("=")[0].strip("[]") for word in words if re.match(r"\[?--", word)}
        assert used <= known | {"--help", "--version"}, (command.name, used - known)


def named(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that words begin with, and the words behind its name."""
    command: click.Command = cli
    for number, word in enumerate(words):
        if not isinstance(command, click.Group) or not re.fullmatch("[a-z][a-z-]*", word):
            return command, words[number:]
        found = command.get_command(click.Context(command), word)
        assert found is not None, words
        command = found
    return command, []


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
    lines = ["A=1 tallgrass status | head", "/opt/x/bin/tallgrass --config a init   # then edit"]
    assert calls(lines) == [["status"], ["--config", "a", "init"]]
    assert sum(len(calls(commands(name_of(path)))) for path in TYPED) > 80
    assert inline_calls("Say `tallgrass nodes show RUN [--x]`; `tallgrass` alone helps.") == [
        ["nodes", "show", "RUN", "[--x]"]
    ]
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
