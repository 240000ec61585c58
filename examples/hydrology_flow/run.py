"""The outbox specification's hydrology flow from end to end, with one command.

    python examples/hydrology_flow/run.py [FOLDER]

1. a trigger starts the pipeline      2. it transforms, validates, stores an artifact
3. one transaction: state, artifact version, event
4. the dispatcher sends the event     5. a consumer updates a STAC item and a DCAT dataset
6. telemetry and 7. the governance ledger are exported

Run it again in the same folder: nothing changes, and the outbox says that it knew the event.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

CONFIGURATION = """[database]
url = "sqlite:///flow.db"

[outbox.targets.bus]
kind = "file"
path = "bus.jsonl"

[[outbox.routes]]
events = ["artifact_published"]
targets = ["bus"]
"""


def run(folder: Path, *command: str) -> None:
    """Run a command in the folder; whatever it says is shown."""
    variables = {name: value for name, value in os.environ.items() if "TALLGRASS_" not in name}
    subprocess.run([sys.executable, *command], cwd=folder, env=variables, check=True)


def main(folder: Path) -> None:
    """Run the flow in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tallgrass.toml").write_text(CONFIGURATION, encoding="utf-8")
    run(folder, "-m", "tallgrass", "db", "migrate")
    run(folder, str(HERE / "pipeline.py"), "flow.db", ".")
    run(folder, "-m", "tallgrass", "outbox", "dispatch", "--drain")
    run(folder, str(HERE / "consumer.py"), "bus.jsonl", "catalog.db", "catalog")
    ledger = ("-m", "tallgrass", "outbox", "ledger", "export")
    run(folder, *ledger, "--dir", ".", "--release", "v10.3.1")
    print(f"\nLook at   {folder}/catalog/item.json and dataset.jsonld")
    print(f"          {folder}/docs/reports/audit/pipeline_outbox_ledger.json")
    print(f"          {folder}/releases/v10.3.1/focus-telemetry.json")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The hydrology flow from end to end.")
    parser.add_argument("folder", nargs="?", type=Path, help="where; a new folder if left out")
    named = parser.parse_args().folder
    main(named or Path(tempfile.mkdtemp(prefix="hydrology-flow-")))
