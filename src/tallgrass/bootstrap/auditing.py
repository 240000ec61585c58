"""Seals the audit log and checks it against its anchors, for commands, the API and pages."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallgrass.bootstrap.audit_anchors import (
    append_anchor,
    contradictions,
    read_anchors,
    require_continuation,
    require_heads,
    require_writable,
)
from tallgrass.bootstrap.retaining import open_retention
from tallgrass.bootstrap.stores import Stores
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.governance.audit import Anchor, Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """The chain's head, and where it is written down."""

    head: Anchor | None
    anchor_file: Path
    #: Whether the file did not know it yet.
    anchored: bool

    def document(self) -> dict[str, Any]:
        """Return it as a JSON value."""
        return {
            "head": self.head,
            "anchor_file": str(self.anchor_file),
            "anchored": self.anchored,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """What a walk over the whole chain found."""

    sealed: int
    unsealed: int
    archived: int
    head: Anchor | None
    anchors: int
    #: None: no file of heads is there to check against.
    anchor_file: Path | None
    faults: list[Fault]

    def document(self, *, faults_max: int | None = None) -> dict[str, Any]:
        """Return it as a JSON value, with so many of its faults."""
        return {
            "ok": not self.faults,
            "sealed": self.sealed,
            "unsealed": self.unsealed,
            "archived": self.archived,
            "head": self.head,
            "anchors": self.anchors,
            "faults": self.faults[:faults_max],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """An anchor file and the heads in it; None where there is no file."""

    anchor_file: Path | None
    anchors: list[Anchor]


def heads_to_extend(config: Config, given: Path | None = None) -> Heads:
    """Read the anchor file that a new head goes to; a file that cannot be written is refused."""
    path = given or Path(config.text("audit.anchor_file"))
    anchors = read_anchors(path) if path.exists() else []
    require_writable(path)
    return Heads(anchor_file=path, anchors=anchors)


def heads_to_check(config: Config, given: Path | None = None) -> Heads:
    """Read the anchor file to check against; only the default one may be missing."""
    path = given or Path(config.text("audit.anchor_file"))
    named = given is not None or config.origins["audit.anchor_file"] != "default"
    if not named and not path.exists():
        return Heads(anchor_file=None, anchors=[])
    return Heads(anchor_file=path, anchors=require_heads(path))


def seal_audit(stores: Stores, heads: Heads, *, clock: Clock = system_clock) -> Sealed:
    """Chain all entries and write the head to the anchor file; a contradiction is refused."""
    assert heads.anchor_file is not None  # noqa: S101 - a file to extend has a name
    head = stores.audit.seal()
    new = require_continuation(heads.anchors, head)
    if head is not None and new:
        append_anchor(heads.anchor_file, head, clock())
    return Sealed(head=head, anchor_file=heads.anchor_file, anchored=new)


def check_audit(
    config: Config,
    stores: Stores,
    heads: Heads,
    *,
    archives: bool = False,
    progress: Callable[[int], None] = lambda _position: None,
) -> ChainReport:
    """Walk the whole chain; `progress` hears how far, page by page, and may raise to end it."""
    read = open_retention(config, stores).rows_of if archives else None
    verifier, unsealed = stores.audit.verify(heads.anchors, read_archive=read, progress=progress)
    twice = [
        Fault(position=position, what="the anchor file holds two different heads for it")
        for position in contradictions(heads.anchors)
    ]
    return ChainReport(
        sealed=verifier.position,
        unsealed=unsealed,
        archived=stores.audit.archived(),
        head=verifier.head,
        anchors=len(heads.anchors),
        anchor_file=heads.anchor_file,
        faults=verifier.faults + twice,
    )
