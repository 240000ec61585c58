import hashlib
from pathlib import Path

import pytest

from tools.conformance_list import ROOT, load_conformance_list
from tools.fault_list import Fault, FaultListError, carries, load_faults, plant, planted_text

FAULTS = load_faults()

ENTRY = """
[[fault]]
name = "one"
file = "src/tallgrass/x.py"
find = "a == b"
replace = "True"
test = "tests/test_a.py::test_one"
ids = ["WAL-1.2"]
why = "Because."
"""


def test_each_fault_fits_the_code() -> None:
    """Each fault's text occurs exactly once in its file."""
    for fault in FAULTS:
        assert planted_text(fault, ROOT)


def test_each_fault_names_tests_that_exist() -> None:
    """Each named test is a function in a file of the suite."""
    for fault in FAULTS:
        for test in fault.tests:
            file, *names = test.split("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            function = names[-1].split("[")[0]
            assert f"def {function}(" in text or f"class {function}" in text, test


def test_each_fault_names_known_requirements() -> None:
    """Each id that a fault puts to the proof is listed."""
    known = load_conformance_list().requirements
    for fault in FAULTS:
        assert [name for name in fault.ids if name not in known] == [], fault.name


def load_text(folder: Path, text: str) -> list[Fault]:
    """Load a list given as text."""
    path = folder / "faults.toml"
    path.write_text(text, encoding="utf-8")
    return load_faults(path)


def test_tests_are_one_or_many(tmp_path: Path) -> None:
    """A fault may name one test or a list."""
    many = ENTRY.replace('"tests/test_a.py::test_one"', '["tests/a.py::b", "tests/c.py::d"]')
    assert load_text(tmp_path, ENTRY)[0].tests == ("tests/test_a.py::test_one",)
    assert load_text(tmp_path, many)[0].tests == ("tests/a.py::b", "tests/c.py::d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY + ENTRY, "used twice"),
        (ENTRY.replace('why = "Because."', ""), "has the keys"),
        (ENTRY.replace("::test_one", ""), "not whole files"),
        (ENTRY.replace("src/tallgrass/x.py", "tests/x.py"), "below src/"),
        (ENTRY.replace("src/tallgrass/x.py", "src/../x.py"), "below src/"),
        (ENTRY.replace('"True"', '"a == b"'), "replace changes"),
    ],
)
def test_a_wrong_list_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """Each mistake in the list stops its reader with a message that names it."""
    with pytest.raises(FaultListError, match=message):
        load_text(tmp_path, text)


@pytest.mark.parametrize("text", ["x = 1\n", "a == b\na == b\n"], ids=["never", "twice"])
def test_the_text_must_occur_once(tmp_path: Path, text: str) -> None:
    """A fault that no longer fits, or fits twice, is refused."""
    (fault,) = load_text(tmp_path, ENTRY)
    file = tmp_path / fault.file
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(FaultListError, match="times in"):
        plant(fault, tmp_path)


def test_planting_renews_the_checksum(tmp_path: Path) -> None:
    """A checksum file above the changed file agrees with it; its other lines stay."""
    (fault,) = load_text(tmp_path, ENTRY)
    file = tmp_path / fault.file
    file.parent.mkdir(parents=True)
    file.write_text("if a == b:\n", encoding="utf-8")
    checksums = file.parent / "SHA256SUMS"
    checksums.write_text("00  x.py\n11  y.py\n", encoding="utf-8")
    plant(fault, tmp_path)
    assert file.read_text(encoding="utf-8") == "if True:\n"
    digest = hashlib.sha256(b"if True:\n").hexdigest()
    assert checksums.read_text(encoding="utf-8") == f"{digest}  x.py\n11  y.py\n"


def test_a_named_test_covers_its_parameters_only() -> None:
    """A test's name stands for its parameter sets, not for a test whose name begins alike."""
    assert carries("t.py::test_a", "t.py::test_a")
    assert carries("t.py::test_a", "t.py::test_a[sqlite]")
    assert carries("t.py::TestA", "t.py::TestA::test_b")
    assert not carries("t.py::test_a", "t.py::test_ab")
