"""Which commit is checked out."""

from __future__ import annotations

import subprocess

from tools.conformance_list import ROOT


def commit(*folders: str) -> str:
    """Return the commit of this checkout; `+` says that files of the folders were changed since."""
    changed = _git("status", "--porcelain", "--", *folders)
    return (_git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],  # noqa: S607 - the checkout's own
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip()
