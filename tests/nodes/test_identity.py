"""The identity of an execution: the printed formula, hostile ids, declared inputs."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import InvalidInput
from tallgrass.nodes.identity import (
    cache_key,
    data_version_of,
    declared_inputs,
    file_name_of,
    id_of_file_name,
)
from tallgrass.nodes.values import Values

if TYPE_CHECKING:
    from pathlib import Path

VALUES = Values()


@pytest.mark.conformance("NR-4.1", "C-39")
def test_the_key_is_the_printed_formula() -> None:
    """The key is what `sha256sum` gives for the four parts, joined by bars."""
    shell = subprocess.run(
        ["sha256sum"],
        input=b"fetch|abc123|" + b"0" * 64 + b"|v1+0123456789abcdef",
        capture_output=True,
        check=True,
    )
    expected = shell.stdout.split()[0].decode()
    assert cache_key("fetch", "abc123", "0" * 64, "v1+0123456789abcdef") == expected
    assert expected == "877161e0cc92ec30dafa1b81d57d9d54ea17e670abd3a5646ac426d6eb276174"


@pytest.mark.conformance("NR-4.2")
@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (
            {"b": 1, "a": [1.0, True, None]},
            "6f7a1d83c5bf2227418cfd4e6fb5f0726bc1c98ddc5595fd9bf6dc132b6a7aa9",
        ),
        ({"t": (1, b"\x00")}, "d46af6a951878aa8a88456f9c486362a04037bef7c3536cec44bf01a92885613"),
    ],
)
def test_the_hash_of_inputs_is_that_of_their_canonical_json(inputs: object, expected: str) -> None:
    """Hashes that were once given out hold for ever; these were made by `sha256sum`."""
    assert VALUES.hash_of(inputs) == expected


@pytest.mark.conformance("NR-4.1", "C-39")
@given(st.lists(st.text(st.sampled_from("ab|"), min_size=1, max_size=4), min_size=8, max_size=8))
def test_no_two_identities_share_a_key(parts: list[str]) -> None:
    """A part that holds the separator is refused; all others give their own key."""
    one, other = parts[:4], parts[4:]
    if any("|" in part for part in parts):
        with pytest.raises(InvalidInput):
            _ = cache_key(*one), cache_key(*other)
        return
    assert (cache_key(*one) == cache_key(*other)) == (one == other)


@pytest.mark.conformance("C-39", "NR-4.5")
def test_a_policy_counts_in_the_data_version() -> None:
    """The declared version stays readable; each policy's fingerprint changes what follows it."""
    base = {"retry": "a", "validation": "b", "governance": "c"}
    changed = [data_version_of("v1", {**base, name: "x"}) for name in base]
    assert len({data_version_of("v1", base), data_version_of("v2", base), *changed}) == 5
    assert data_version_of("v1", base).startswith("v1+")
    assert data_version_of("v1", dict(reversed(base.items()))) == data_version_of("v1", base)


@pytest.mark.conformance("NR-4.2")
def test_only_declared_inputs_count() -> None:
    """What a node does not use is neither hashed nor given to it; absent and None differ."""
    state = {"a": 1, "b": 2}
    assert declared_inputs(state, ("a",)) == {"a": 1}
    assert declared_inputs(state, None) is state
    assert declared_inputs(state, ("c",)) == {}
    with pytest.raises(InvalidInput, match="no mapping"):
        declared_inputs([1], ("a",))


@pytest.mark.conformance("NR-3.1")
def test_other_processes_compute_the_same_hashes() -> None:
    """Order of keys and of sets, hash seed and process do not matter."""
    program = (
        "from tallgrass.nodes.values import Values\n"
        "import sys, itertools\n"
        "words = ['river', 'prairie', 'storm', 'gauge']\n"
        "order = list(itertools.permutations(words))[int(sys.argv[1])]\n"
        "print(Values().hash_of({w: {'s': set(order), 'f': frozenset(order)} for w in order}))\n"
    )
    hashes = set()
    for seed, order in ((1, 0), (2, 7), (3, 23)):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        made = subprocess.run(
            [sys.executable, "-c", program, str(order)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        hashes.add(made.stdout)
    assert len(hashes) == 1


HOSTILE = [
    "..", ".", "../../etc/passwd", "/abs", "a/b", "a\\b", "nul\x00byte", "C:", "C:\\x", "CON",
    "nul", "com1.txt", "-rf", "_x", " ", "a b", "ends.", "%2e%2e", "%", "ä", "\u202e", "~",
    ".journal", ".lock", "tab\t", "new\nline", "\u0130", "*", "?", "|",
]  # fmt: skip


@pytest.mark.conformance("NR-5.1", "C-42")
@pytest.mark.parametrize("given_id", HOSTILE, ids=ascii)
def test_a_hostile_id_is_encoded_reversibly(given_id: str, tmp_path: Path) -> None:
    """Its folder's name is one plain part of a path that leads nowhere else."""
    name = file_name_of(given_id)
    assert id_of_file_name(name) == given_id
    assert (tmp_path / name).resolve().parent == tmp_path.resolve()
    (tmp_path / name).mkdir()
    assert name[0] not in "._-"
    assert name.isascii()
    assert name.upper().partition(".")[0] not in {"CON", "NUL", "COM1"}


@pytest.mark.conformance("NR-5.1", "C-42")
@given(st.text(min_size=1, max_size=20))
def test_every_id_has_its_own_name_or_is_refused(given_id: str) -> None:
    """The way back always leads to the id that was given."""
    try:
        name = file_name_of(given_id)
    except InvalidInput:
        given_id.encode(errors="surrogatepass")
        assert any("\ud800" <= char <= "\udfff" for char in given_id)
        return
    assert id_of_file_name(name) == given_id


@pytest.mark.conformance("NR-5.1", "C-42")
@pytest.mark.parametrize("given_id", ["", "x" * 129, "x" * 300, "ä" * 100])
def test_an_id_that_fits_no_name_is_refused(given_id: str) -> None:
    """300 characters are no id, and neither is nothing."""
    with pytest.raises(InvalidInput) as refused:
        file_name_of(given_id)
    assert refused.value.code == "node_id_invalid"


def test_plain_ids_stay_as_they_are() -> None:
    """The pattern of the contract is kept as it is, up to its longest."""
    for plain in ("fetch", "a.b-c_d", "0", "x" * 128):
        assert file_name_of(plain) == plain


def test_a_name_that_no_id_has_is_refused() -> None:
    """A folder that somebody else made is not taken for a run."""
    for name in ("%41", "a%2fb", "%ff", ".journal"):
        with pytest.raises(InvalidInput):
            id_of_file_name(name)


@pytest.mark.conformance("NR-4.1", "C-39")
def test_an_id_with_a_bar_has_no_key() -> None:
    """The separator cannot be smuggled in by any of the four parts."""
    for parts in set(permutations(["a|b", "c", "d", "e"])):
        with pytest.raises(InvalidInput) as refused:
            cache_key(*parts)
        assert refused.value.code == "node_declaration_invalid"
