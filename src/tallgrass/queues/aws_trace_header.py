"""The trace context that AWS services put beside a message, told as everybody else tells it.

X-Ray writes an id of its own form, which holds the same digits as W3C's:
`Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1`.
"""

import re

_ROOT = re.compile(r"1-([0-9a-f]{8})-([0-9a-f]{24})")
_PARENT = re.compile(r"[0-9a-f]{16}")
_KEPT = {"1": "01"}


def traceparent_of(header: str | None) -> str | None:
    """Return an `AWSTraceHeader` as a `traceparent`; None where it names no span."""
    named = dict(part.strip().partition("=")[::2] for part in (header or "").split(";"))
    root = _ROOT.fullmatch(named.get("Root", ""))
    parent = named.get("Parent", "")
    if root is None or not _PARENT.fullmatch(parent):
        return None
    return f"00-{root[1]}{root[2]}-{parent}-{_KEPT.get(named.get('Sampled', ''), '00')}"
