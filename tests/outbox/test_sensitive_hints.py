from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tallgrass.ledger.redaction import CREDENTIALS_BY_FORM
from tallgrass.outbox import sensitive_content
from tallgrass.outbox.sensitive_hints import Hints, hints_in

if TYPE_CHECKING:
    import re

#: Each pattern with the hint that must be there wherever it finds something.
PATTERNS = [
    (sensitive_content._E_MAIL, "addresses"),
    (sensitive_content._SOCIAL_SECURITY, "numbers"),
    (sensitive_content._CARD, "numbers"),
    (sensitive_content._TELEPHONE, "numbers"),
    (sensitive_content._NAMES, "names_of_secrets"),
]
#: Credentials as they are issued, one for each of the patterns that know them by their form.
FORMS = [
    r"(?i:-----BEGIN (?:RSA |EC )?PRIVATE KEY-----)",
    r"[a-z]{3,8}://[a-z]{1,8}:[a-z0-9]{1,8}@[a-z]{1,8}",
    r"(?i:bearer|basic)\s{1,3}[A-Za-z0-9._~+/=-]{6,12}",
    r"(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{12,16}",
    r"(?i:gh[pousr]_|github_pat_|glpat-|npm_|pypi-|hf_|dop_v1_|xox[abeprs]-)[A-Za-z0-9._-]{8,12}",
    r"(?i:whsec_|sk-|[spr]k_(?:live|test)_|ya29\.|AIza|eyJ|SG\.)[A-Za-z0-9._-]{8,12}",
    r"[A-Za-z0-9/+]{37}aB1",
]
NOTHING = Hints(*[False] * 4)


@pytest.mark.parametrize(
    ("pattern", "hint"), PATTERNS, ids=[pattern.pattern[:24] for pattern, _ in PATTERNS]
)
@given(data=st.data(), before=st.text(max_size=5), after=st.text(max_size=5))
def test_what_a_pattern_finds_has_its_hint(
    pattern: re.Pattern[str], hint: str, data: st.DataObject, before: str, after: str
) -> None:
    """Wherever it stands, whatever the script of its letters and digits."""
    found = data.draw(st.from_regex(pattern, fullmatch=True))
    text = f"{before}{found}{after}"
    for written in (text.encode(), orjson.dumps({"field": [text]}), orjson.dumps({text: 1})):
        assert getattr(hints_in(written), hint)


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data(), before=st.sampled_from(["", "\n", "\t", " ", '"', "é ", "("]))
def test_a_credential_known_by_its_form_has_a_hint(
    form: str, data: st.DataObject, before: str
) -> None:
    """Also behind a sign that JSON escapes, which then looks like a letter in front of it."""
    text = before + data.draw(st.from_regex(form, fullmatch=True))
    assume(any(pattern.search(text) for pattern in CREDENTIALS_BY_FORM))
    for written in (text.encode(), orjson.dumps({"field": text})):
        hints = hints_in(written)
        assert hints.addresses or hints.credentials


@pytest.mark.parametrize(
    "text",
    [
        "OR_GLM-L2-LCFA_G16_s20260010000000_e20260010000200_c20260010000219.nc",
        "https://noaa-goes16.s3.amazonaws.com/GLM-L2-LCFA/2026/152/12/x.nc",
        "2026-06-01T12:00:00.000000Z",
        "sha256:" + "0a" * 32,
        "[-156.06,-66.56,6.06,66.56]",
        "Rivers of Kansas, 1,234.5 km; stage 12.5 ft",
    ],
)
def test_what_payloads_usually_hold_has_none(text: str) -> None:
    """No pattern is asked then: that is what makes publishing quick."""
    assert hints_in(text.encode()) == NOTHING


def test_a_checksum_is_no_credential_whatever_it_begins_with() -> None:
    """Ids of AWS keys are written in capitals, digests in small letters."""
    checksum = {"checksum": "sha256:acca" + "07d7" * 15}
    assert list(sensitive_content.sensitive_kinds(checksum)) == []
    written_as_an_id = {"field": "ACCA07D707D707D707D7"}
    assert list(sensitive_content.sensitive_kinds(written_as_an_id)) == ["credential"]
