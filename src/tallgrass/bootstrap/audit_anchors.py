"""The anchor file: heads of the audit chain, one JSON line each, kept outside the database."""

import json
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from tallgrass.canonical_json import canonical_bytes
from tallgrass.clock import format_instant
from tallgrass.errors import AuditBroken, InvalidInput
from tallgrass.governance.audit import Anchor
from tallgrass.syncing import sync_path

_DIGITS = frozenset("0123456789abcdef")


def read_anchors(path: Path) -> list[Anchor]:
    """Return all heads in the file; anything that is not one is refused with its line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not text"
        message = f"cannot read the anchor file {path}: {reason}"
        raise InvalidInput(message, code="anchor_invalid") from exc
    return [_anchor(path, number, line) for number, line in enumerate(lines, start=1)]


def require_heads(path: Path) -> list[Anchor]:
    """Return the heads in a file that must hold some: an empty one would prove nothing."""
    anchors = read_anchors(path)
    if not anchors:
        message = f"{path} holds no head of the audit chain"
        raise InvalidInput(message, code="anchor_invalid")
    return anchors


def require_writable(path: Path) -> None:
    """Refuse a place that cannot be written, before anything is sealed for it."""
    place = path if path.exists() else path.absolute().parent
    if path.is_dir() or not os.access(place, os.W_OK):
        reason = "no right to write there" if place.exists() else f"there is no folder {place}"
        message = f"cannot write the anchor file {path}: {reason}"
        raise InvalidInput(message, code="anchor_invalid")


def require_continuation(anchors: Sequence[Anchor], head: Anchor | None) -> bool:
    """Refuse a head that contradicts what was anchored before; tell whether it is a new one.

    Otherwise whoever rewrites the chain could anchor the forgery beside the truth.
    """
    for anchor in anchors:
        if head is None or head.position < anchor.position:
            ends = 0 if head is None else head.position
            message = f"the anchor file knows seal {anchor.position}, the log ends at {ends}"
            raise AuditBroken(message)
        if head.position == anchor.position and head.chain_hash != anchor.chain_hash:
            message = f"seal {head.position} is not what the anchor file says"
            raise AuditBroken(message)
    return head is not None and head not in anchors


def contradictions(anchors: Sequence[Anchor]) -> list[int]:
    """Return the positions for which the file holds two different heads."""
    seen: dict[int, str] = {}
    return sorted(
        {a.position for a in anchors if seen.setdefault(a.position, a.chain_hash) != a.chain_hash}
    )


def append_anchor(path: Path, head: Anchor, sealed_at: datetime) -> None:
    """Add a head to the file and wait until it is on disk; a write that fails leaves nothing."""
    line = {
        "position": head.position,
        "chain_hash": head.chain_hash,
        "sealed_at": format_instant(sealed_at),
    }
    with path.open("ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            left = memoryview(canonical_bytes(line) + b"\n")
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            # A piece of a line would make the whole file unreadable.
            file.truncate(size)
            raise
    if not size:
        sync_path(path.absolute().parent)


def _anchor(path: Path, number: int, line: str) -> Anchor:
    try:
        value = json.loads(line)
        position, chain_hash = value["position"], value["chain_hash"]
    except (ValueError, KeyError, TypeError):
        position, chain_hash = 0, ""
    valid = (
        type(position) is int
        and position >= 1
        and isinstance(chain_hash, str)
        and len(chain_hash) == 64  # noqa: PLR2004 - digits of a SHA-256
        and set(chain_hash) <= _DIGITS
    )
    if not valid:
        message = f"{path}, line {number}: not a head of the audit chain"
        raise InvalidInput(message, code="anchor_invalid")
    return Anchor(position=position, chain_hash=chain_hash)
