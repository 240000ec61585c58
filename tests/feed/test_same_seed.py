from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import hashlib, json
from tallgrass.simulate.feed import Feed, FeedObject
feed = Feed(42, 200)
digest = hashlib.sha256()
for step in feed.steps():
    digest.update(step.key.encode() + step.content if isinstance(step, FeedObject) else step.body)
digest.update(json.dumps(feed.manifest().to_json()).encode())
print(digest.hexdigest())
"""


def digest(**environment: str) -> str:
    """Return the digest of a feed that another process made."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_one_seed_is_one_feed() -> None:
    """Hash seed, time zone and language of a process change nothing in a feed."""
    digests = {
        digest(PYTHONHASHSEED="0", TZ="UTC"),
        digest(PYTHONHASHSEED="1", TZ="America/Chicago", LC_ALL="C"),
        digest(PYTHONHASHSEED="4242", TZ="Pacific/Kiritimati", LANG="de_DE.UTF-8"),
    }
    assert len(digests) == 1


def test_another_seed_is_another_feed() -> None:
    """Two seeds share no message."""
    from tallgrass.simulate.feed import Feed  # noqa: PLC0415 - the others run elsewhere

    first, second = (set(Feed(seed, 50).bodies()) for seed in (1, 2))
    poison = {b'{"Records": [', b"not JSON at all", b'{"Records": NaN}'}
    assert not first & second - poison
