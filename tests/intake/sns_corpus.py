"""The hostile SNS messages of `corpus/sns_hostile.toml`, as bodies with the code each must get."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus" / "sns_hostile.toml"


def hostile_messages() -> list[tuple[str, bytes, str]]:
    """Return name, body and expected code of each case."""
    corpus = tomllib.loads(CORPUS.read_text(encoding="utf-8"))
    found = []
    for case in corpus["case"]:
        fields = {**corpus[case.get("of", "notification")], **case.get("set", {})}
        for name in case.get("drop", ()):
            del fields[name]
        body = case.get("body") or json.dumps(fields, indent=2)
        found.append((case["name"], body.encode(), case["code"]))
    return found
