"""Play a run of three nodes with a fault at the n-th operation of its file layer, for every n."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from tallgrass.errors import TallgrassError
from tallgrass.nodes.files import Files
from tests.io_faults.faulty_vfs import How
from tests.io_faults.lives import Tally
from tests.nodes.crash_roles import graph
from tests.nodes.faulty_files import CHANGING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: What the three nodes give, and the one effect that they have outside.
RESULT, EFFECTS = 25, ["object-20"]


class FaultyFiles(Files):
    """The nodes' own file layer, of which the n-th operation fails."""

    def __init__(self, fails_at: int, how: How) -> None:
        self.seen = 0
        self.struck: str | None = None
        self._fails_at = fails_at
        self._how = how

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in CHANGING:
            return found

        def faulty(*arguments: Any, **keywords: Any) -> Any:
            number, self.seen = self.seen, self.seen + 1
            if number != self._fails_at:
                return found(*arguments, **keywords)
            self.struck = name
            if self._how is How.AFTER:
                done = found(*arguments, **keywords)
                if name == "open":
                    os.close(done)
            elif self._how is How.TORN and name == "write":
                found(arguments[0], arguments[1][: len(arguments[1]) // 2])
            code = errno.ENOSPC if self._how is How.NO_ROOM else errno.EIO
            raise OSError(code, os.strerror(code))

        return faulty


def every_node_point(root: Path, hows: Iterable[How], *, every: int = 1) -> Tally:
    """Let each operation fail in turn; an error is told, and the run ends well when tried again."""
    tally = Tally()
    for how in hows:
        number = 0
        while True:
            place = root / f"{how.value}-{number}"
            files = FaultyFiles(number, how)
            wrong = _play(place, files)
            if files.struck is None:
                break
            tally.points[f"{files.struck} {how.value}"] += 1
            name = f"nodes, {how.value} operation {number} ({files.struck})"
            tally.violations += [f"{name}: {text}" for text in wrong]
            number += every
    return tally


def _play(root: Path, files: FaultyFiles) -> list[str]:
    found = []
    try:
        if (answer := graph(root, files)) != RESULT:
            found.append(f"ended with {answer}")
    except TallgrassError:
        pass
    except Exception as error:  # noqa: BLE001 - what is not ours to raise is a finding
        found.append(f"raised {type(error).__name__}: {error}")
    if (answer := graph(root, None)) != RESULT:
        found.append(f"tried again, it ended with {answer}")
    outside = [path.name for path in (root / "outside").iterdir()]
    if outside != EFFECTS:
        found.append(f"tried again, it left {outside} outside")
    return found
