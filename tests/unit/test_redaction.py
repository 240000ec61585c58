"""A corpus of what must never be stored, in the forms in which errors bring it."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.ledger import redaction
from tallgrass.ledger.redaction import MESSAGE_CHARS_MAX, redact, small_letters
from tests.corpora.reading import cases

AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # noqa: S105 - AWS's own documented example

#: A message, and the parts of it that must not survive.
CORPUS = [(case["text"], case["gone"]) for case in cases("secrets.toml", "message")]
#: What helps an operator and is no secret.
HARMLESS = [case["text"] for case in cases("secrets.toml", "harmless")]


@pytest.mark.conformance("WAL-3.8")
@pytest.mark.parametrize(("message", "secrets"), CORPUS, ids=range(len(CORPUS)))
def test_no_secret_of_the_corpus_survives(message: str, secrets: list[str]) -> None:
    """Secrets, persons, machines and places are taken out, alone and inside a longer message."""
    for around in ("{}", "operator failed: {} (attempt 3)", "line above\n{}\nline below"):
        text = around.format(message) if "{" not in message else around.replace("{}", message)
        kept = redact(text)
        assert not [secret for secret in secrets if secret in kept]


def test_the_corpus_is_large() -> None:
    """At least ninety seeded messages are tried, each with something to lose that it holds."""
    assert len(CORPUS) >= 90
    for message, secrets in CORPUS:
        assert secrets
        assert all(secret in message for secret in secrets), message


@pytest.mark.parametrize("message", HARMLESS)
def test_what_helps_is_kept(message: str) -> None:
    """Keys, hashes, sizes, times, ids and codes stay readable."""
    assert redact(message) == message


@pytest.mark.conformance("WAL-3.8")
def test_control_characters_are_escaped() -> None:
    """Line breaks, terminal escapes, direction marks and broken Unicode become visible text."""
    kept = redact("a\nb\x1b[31m\x00\x7f\x85\u2028\u202e\u200b\ud800z")
    expected = r"a\u000ab\u001b[31m\u0000\u007f\u0085\u2028\u202e\u200b\ud800z"
    assert kept == expected


@pytest.mark.conformance("WAL-3.8")
@pytest.mark.parametrize("size", [499, 500, 501, 1999, 2000, 2001, 100_000])
def test_a_message_has_at_most_500_characters(size: int) -> None:
    """What is longer is cut and ends in an ellipsis; what fits is left alone."""
    kept = redact(("word " * (size // 5 + 1))[:size].strip())
    assert len(kept) <= MESSAGE_CHARS_MAX == 500
    assert kept.endswith("…") == (size > 500)


@pytest.mark.conformance("WAL-3.8")
@pytest.mark.parametrize("place", [0, 480, 495, 1980, 1995, 2050])
def test_a_secret_at_a_cut_does_not_survive(place: int) -> None:
    """Wherever a long message is cut, no half of a secret is left."""
    padding = ("word " * 1000)[:place]
    kept = redact(f"{padding} password=hunter2-hunter2 {AWS_SECRET} bob@example.com " + "x " * 500)
    assert not [part for part in ("hunter", AWS_SECRET[:20], "bob@") if part in kept]


@pytest.mark.parametrize("blank", [" ", "\n", "\t", "\u3000"])
def test_a_message_of_blanks_alone_is_no_error(blank: str) -> None:
    """A long message without a single word is redacted like any other."""
    assert len(redact(blank * 5000)) <= MESSAGE_CHARS_MAX


@pytest.mark.conformance("WAL-3.8")
@given(st.text(max_size=600))
def test_any_text_becomes_a_short_printable_line(text: str) -> None:
    """No text makes redaction fail; its result is printable, short, and stays as it is."""
    kept = redact(text)
    assert kept.isprintable()
    assert len(kept) <= MESSAGE_CHARS_MAX
    assert redact(kept) == kept


fragments = st.sampled_from([message for message, _ in CORPUS] + HARMLESS)


@pytest.mark.conformance("WAL-3.8")
@given(st.lists(fragments | st.text(max_size=20), max_size=30), st.sampled_from([" ", "\n", ", "]))
def test_a_redacted_message_is_not_changed_by_redacting_it_again(
    parts: list[str], separator: str
) -> None:
    """Redaction settles: whatever the mixture, a second pass finds nothing more."""
    kept = redact(separator.join(parts))
    assert kept.isprintable()
    assert len(kept) <= MESSAGE_CHARS_MAX
    assert redact(kept) == kept


@pytest.mark.parametrize("rule", [each for each in redaction._PATTERNS if each.signs])
@given(data=st.data())
def test_no_pattern_matches_a_text_without_its_signs(rule: Any, data: st.DataObject) -> None:
    """A sign that is missing in the list would let a secret pass: all that matches has one."""
    text = data.draw(st.from_regex(rule.pattern))
    small = small_letters(text)
    assert any(sign in small for sign in rule.signs)


@pytest.mark.parametrize("rule", [each for each in redaction._PATTERNS if each.part])
@given(data=st.data())
def test_no_pattern_matches_a_text_without_its_part(rule: Any, data: st.DataObject) -> None:
    """What is quickly looked for first is in all that matches."""
    text = data.draw(st.from_regex(rule.pattern))
    assert rule.part.search(text) is not None


@pytest.mark.parametrize("letter", [chr(number) for number in range(sys.maxunicode + 1)
                                    if re.match("[a-z]", chr(number), re.IGNORECASE)])  # fmt: skip
def test_a_letter_is_small_as_patterns_take_it(letter: str) -> None:
    """Some letters of other alphabets count as one of a to z where case does not."""
    assert re.match(re.escape(small_letters(letter)), letter, re.IGNORECASE)
    assert small_letters(letter) in "abcdefghijklmnopqrstuvwxyz"
