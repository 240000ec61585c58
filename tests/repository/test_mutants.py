"""The command that changes code to see whether a test notices."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tools import mutants
from tools.conformance_list import ROOT
from tools.mutant_making import mutants_of
from tools.mutant_session import SOURCE
from tools.mutants import Equivalent, MutantListError, Tally, count_result, load_list, score

if TYPE_CHECKING:
    from pathlib import Path

RULE = '''"""What is judged."""

LIMIT = 3


def judge(number: int, name: str) -> bool:
    """Tell whether it may pass."""
    if number < LIMIT and name != "nobody":
        raise ValueError(f"no {name}")
    return number + 1 > 5
'''

NO_SUCH_LINE = """
[groups]
[[equivalent]]
module = "ledger/budget.py"
code = "never"
what = "x → y"
reason = "none"
"""


def changes(source: str) -> list[tuple[int, str]]:
    """Return the lines of all mutants, and what they are."""
    return [(mutant.line, mutant.what) for mutant in mutants_of(source)]


def test_every_kind_of_change_is_made_once() -> None:
    """Comparisons, branches, joined conditions, numbers, words, returns, statements: by hand."""
    assert changes(RULE) == [
        (3, "3 → 4"),
        (8, "if number < LIMIT and name != 'nobody' → if True"),
        (8, "if number < LIMIT and name != 'nobody' → if False"),
        (8, "number < LIMIT and name != 'nobody' → Or"),
        (8, "number < LIMIT and name != 'nobody' → without number < LIMIT"),
        (8, "number < LIMIT and name != 'nobody' → without name != 'nobody'"),
        (8, "number < LIMIT → LtE"),
        (8, "name != 'nobody' → Eq"),
        (8, "'nobody' → 'not nobody'"),
        (9, "raise ValueError(f'no {name}') → pass"),
        (10, "return number + 1 > 5 → return None"),
        (10, "number + 1 > 5 → GtE"),
        (10, "number + 1 → Sub"),
        (10, "1 → 2"),
        (10, "5 → 6"),
    ]


def test_a_mutant_differs_in_its_one_place_alone() -> None:
    """The module with the change, and the module itself as it was."""
    before = ast.unparse(ast.parse(RULE)).splitlines()
    for mutant in mutants_of(RULE):
        after = ast.unparse(mutant.tree()).splitlines()
        assert sum(old != new for old, new in zip(before, after, strict=True)) == 1, mutant.what
    assert ast.unparse(ast.parse(RULE)).splitlines() == before


def test_a_function_that_runs_at_import_is_changed_before() -> None:
    """Its mutants belong to no function whose code could be exchanged later."""
    source = "def make(n):\n    return n + 1\n\ndef use(n):\n    return make(n)\n\nX = [make(2)]\n"
    found = {mutant.what: mutant.function for mutant in mutants_of(source)}
    assert found == {
        "return n + 1 → return None": None,
        "n + 1 → Sub": None,
        "1 → 2": None,
        "return make(n) → return None": 4,
        "2 → 3": None,
    }


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("x = not a", ["without not"]),
        ("x = [n for n in all if n]", ["any"]),
        ("x = a if b else c", ["if True", "if False"]),
        ("def f():\n    self.x = 1", ["pass", "2"]),
        ("def f():\n    x += 1", ["Sub", "pass", "2"]),
        ("def f():\n    return False", ["True"]),
        ("def f():\n    while True:\n        break", ["False", "pass"]),
        ("if TYPE_CHECKING:\n    x = 1", []),
        ("def f(n: int = 3) -> 'int':\n    'text'", []),
        ("x = f'{n} of 3' + 'a text'", []),
        ("__all__ = ['word']", []),
        ("x = list(zip(a, b, strict=True))", []),
        ("class P(Protocol):\n    x = 1", []),
    ],
)
def test_what_is_changed_and_what_is_left_alone(source: str, made: list[str]) -> None:
    """Texts, annotations, defaults and what only checkers of types read stay as they are."""
    assert [what.rpartition(" → ")[2] for _, what in changes(source)] == made


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes the page or the report of the checkout."""
    monkeypatch.delenv("PUBLISH", raising=False)


@pytest.mark.slow
def test_tests_that_look_away_let_mutants_live(tmp_path: Path) -> None:
    """Each mutant of a real module, by its real tests: the weak one notices less."""

    def played(*tests: str, outside: bool) -> list[dict[str, Any]]:
        order = {"modules": ["ledger/budget.py"], "tests": tests, "jobs": 2, "outside": outside}
        done = subprocess.run(
            [sys.executable, "-m", "tools.mutant_session", json.dumps(order)],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    strong = played("tests/unit/test_budget.py", outside=False)
    assert len(strong) == 7
    assert {each["verdict"] for each in strong} == {"killed"}
    weak = tmp_path / "test_weak.py"
    weak.write_text(
        "from tallgrass.ledger.budget import attempts_used\n\n\n"
        "def test_it_runs():\n    attempts_used(5, 2)\n",
        encoding="utf-8",
    )
    found = [each["verdict"] for each in played(str(weak), outside=False)]
    assert sorted(set(found)) == ["survived", "unreached"]
    assert len(found) == len(strong)
    outside = played("tests/unit/test_budget.py", outside=True)
    assert [each["what"] for each in outside] == [
        mutant.what
        for mutant in mutants_of((SOURCE / "ledger/budget.py").read_text(encoding="utf-8"))
        if mutant.function is None
    ]


def test_the_list_names_what_is_there() -> None:
    """Every module of the core is in it, and every mutant that nobody can notice has its reason."""
    groups, equivalents = load_list()
    assert [group.name for group in groups] == [
        "ledger", "claims", "dispatcher", "approvals", "guard",
    ]  # fmt: skip
    ledger = {f"ledger/{path.name}" for path in (SOURCE / "ledger").glob("[a-z]*.py")}
    assert set(groups[0].modules) == ledger
    assert len(equivalents) <= 0.03 * 2000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[groups.a]\nmodules = ["ledger/none.py"]\ntests = []', "a: there is no ledger/none.py"),
        ('[groups.a]\nmodules = []\ntests = ["tests/none.py"]', "a: there is no tests/none.py"),
        (NO_SUCH_LINE, "ledger/budget.py has no line 'never'"),
    ],
)
def test_a_wrong_list_is_refused(text: str, told: str, tmp_path: Path) -> None:
    """A module, a test or a line that is gone would be guarded by nobody."""
    file = tmp_path / "mutants.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(MutantListError, match=re.escape(told)):
        load_list(file)


def test_results_are_counted_by_what_they_mean() -> None:
    """Failing and never ending are noticed; what nobody can notice does not count."""
    lines = (SOURCE / "ledger/budget.py").read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.strip())
    same = Equivalent(
        module="ledger/budget.py", code=lines[line - 1].strip(), what="a → b", reason="none"
    )
    tally, told = Tally(), []
    for what, verdict in (
        ("x", "killed"), ("x", "timeout"), ("x", "survived"), ("x", "unreached"),
        ("a → b", "survived"),
    ):  # fmt: skip
        result = {"module": "ledger/budget.py", "line": line, "what": what, "verdict": verdict}
        told.append(count_result(tally, result, [same]))
    assert (tally.noticed, tally.total) == (2, 4)
    assert score([tally]) == 0.5
    assert [text and text.split(": ")[1] for text in told] == [
        None, None, "survived", "unreached", None,
    ]  # fmt: skip
    assert score([]) == 0.0


@pytest.mark.parametrize(("killed", "code"), [(84, 1), (85, 0)])
def test_too_many_survivors_fail_the_command(
    killed: int,
    code: int,
    checkout: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At least 85 of a hundred mutants must be noticed."""

    def play(group: mutants.Group, jobs: int, *, outside: bool) -> list[dict[str, Any]]:
        result = {"module": group.modules[0], "line": 1, "what": "x"}
        verdicts = ["killed"] * killed + ["survived"] * (100 - killed)
        return [] if outside else [{**result, "verdict": verdict} for verdict in verdicts]

    monkeypatch.setattr(mutants, "play", play)
    monkeypatch.setattr(mutants, "REPORT", ROOT / "build" / f"mutants-test-{tmp_path.name}.txt")
    try:
        assert mutants.main(["--only", "guard"]) == code
        left = mutants.REPORT.read_text(encoding="utf-8").splitlines()
    finally:
        mutants.REPORT.unlink()
    assert len(left) == 100 - killed
    assert f"100 mutants, {killed}.0% noticed" in capsys.readouterr().out
