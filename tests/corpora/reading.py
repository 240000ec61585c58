"""Reads the files of this folder."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def cases(name: str, kind: str) -> list[dict[str, Any]]:
    """Return the cases of one kind that a file holds."""
    found: list[dict[str, Any]] = tomllib.loads((HERE / name).read_text(encoding="utf-8"))[kind]
    return found


def written(text: str, times: int = 1) -> str:
    """Return what a case writes; `<D800>` stands for the character of that number."""
    return re.sub(r"<([0-9A-F]{4})>", lambda match: chr(int(match[1], 16)), text) * times
