"""Who runs nodes in a simulated world: the real runner, killed at any operation on its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.nodes.crash_roles import calls_of, graph, journaled
from tests.nodes.faulty_files import ScriptedFiles
from tests.simulation.disturbed import Crashed

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from tests.simulation.world import World

#: What the three nodes come to, and the one effect that they have.
RESULT = 25
EFFECT = "object-20"
#: So many operations an undisturbed run makes at most.
OPERATIONS_MAX = 70


@dataclass
class NodeUser:
    """Somebody whose runs are killed, once or twice, and taken up again."""

    world: World
    random: Random
    _runs: int = 0

    def run(self) -> str:
        """Run three nodes to their end; each result and each effect is there once."""
        self._runs += 1
        root = self.world.folder / f"nodes-{self._runs}"
        killed = sum(self._is_killed(root) for _ in range(self.random.randint(0, 2)))
        result = graph(root, None)
        made = sorted(path.name for path in (root / "outside").iterdir())
        if (result, made) != (RESULT, [EFFECT]):
            self.world.violations.append(f"nodes came to {result} with the effects {made}")
        return f"are run, killed {killed} times"

    def _is_killed(self, root: Path) -> bool:
        """Run them, and be killed at some operation; nothing done is done again."""
        last = self.random.randrange(OPERATIONS_MAX)

        def before(number: int, _name: str) -> None:
            if number >= last:
                raise Crashed

        done = journaled(root)[1] if root.is_dir() else set()
        calls = calls_of(root, done)
        try:
            graph(root, ScriptedFiles(before))
        except Crashed:
            return True
        finally:
            announced, _ = journaled(root)
            made = {path.name for path in (root / "outside").iterdir()}
            if not made <= announced or calls_of(root, done) != calls:
                self.world.violations.append(f"nodes with results were run again, or made {made}")
        return False
