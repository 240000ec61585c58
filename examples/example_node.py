"""One reliable node with an effect outside: crash it, run it again, fail it.

    python example_node.py FOLDER            publish the mean flow of a gauge
    python example_node.py FOLDER --crash    the process is killed right after the effect
    python example_node.py FOLDER --fail     the node fails for good, and what it made is undone

Run it with ``--crash`` and then without: the effect is not made a second time, and the result is
what it would have been. Run it with ``--fail`` in a new folder: shelf and staging are empty again,
and the log under ``FOLDER/wal`` tells everything that happened.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallgrass.nodes import NodeFailed, NodeRunner, ValidationError, effect, stage_file

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Discharge of the Kansas River in cubic feet a second.
STATE = {"gauge": "06889000", "cfs": [1410, 1450, 1520]}


def unshelve(_previous_state: Any, wal_entry: Mapping[str, Any]) -> None:
    """Take a document off the shelf again; one that is not there needs nothing."""
    Path(wal_entry["key"]).unlink(missing_ok=True)


def publish(folder: Path, ending: str, state: dict[str, Any]) -> dict[str, Any]:
    """Write the mean flow to staging, then put it on the shelf."""
    mean = sum(state["cfs"]) / len(state["cfs"])
    staged = stage_file(folder / "staging" / f"{state['gauge']}.json")
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_text(json.dumps({"gauge": state["gauge"], "mean_cfs": mean}))
    shelf = folder / "shelf" / staged.name

    def put() -> int:
        shelf.parent.mkdir(parents=True, exist_ok=True)
        with (folder / "made.log").open("a") as log:
            log.write(f"{shelf.name}\n")
        return shelf.write_bytes(staged.read_bytes())

    size = effect("put_on_shelf", key=str(shelf), do=put)
    if ending == "--crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "--fail":
        message = "the gauge was out of order"
        raise ValidationError(message)
    return {"shelf": shelf.name, "bytes": size, "mean_cfs": mean}


def main(folder: Path, ending: str = "") -> int:
    """Run the node once in the run `flow`; return what the process ends with."""
    with NodeRunner(folder, pipeline="hydrology", run_id="flow") as runner:
        try:
            found = runner.run(
                node_id="publish",
                code_version="1",
                inputs=STATE,
                exec_fn=lambda state: publish(folder, ending, state),
                compensate_fn=unshelve,
            )
        except (ValidationError, NodeFailed) as error:
            sys.stdout.write(f"failed: {error}\n")
            return 1
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="One reliable node with an effect outside.")
    parser.add_argument("folder", type=Path)
    endings = parser.add_mutually_exclusive_group()
    for each in ("--crash", "--fail"):
        endings.add_argument(each, dest="ending", action="store_const", const=each, default="")
    sys.exit(main(**vars(parser.parse_args())))
