"""What a demo leaves in its folder, by name."""

from pathlib import Path

from tallgrass.config import Config, load_config

CONFIG_NAME = "tallgrass.toml"
LEDGER_NAME, QUEUE_NAME, OBJECTS_NAME = "ledger.db", "queue.db", "objects"
#: What must become of each unit; whoever checks the demo from outside reads it.
MANIFEST_NAME = "manifest.json"
ANCHORS_NAME = "audit-anchors.jsonl"
ENERGY_NAME = "energy.jsonl"
ALL_NAMES = (
    CONFIG_NAME,
    LEDGER_NAME,
    QUEUE_NAME,
    OBJECTS_NAME,
    MANIFEST_NAME,
    ANCHORS_NAME,
    ENERGY_NAME,
)


def written_config(folder: Path) -> Config:
    """Write the demo's configuration into its folder, where commands can be pointed at it."""
    file = folder / CONFIG_NAME
    file.write_text(
        "# The configuration of this demo: tallgrass --config FILE status\n"
        f"[database]\nurl = {_toml(f'sqlite:///{folder / LEDGER_NAME}')}\n\n"
        f"[queue]\nurl = {_toml(f'sqlite:///{folder / QUEUE_NAME}')}\n\n"
        f"[objects]\nurl = {_toml(f'file:{folder / OBJECTS_NAME}')}\n\n"
        f"[audit]\nanchor_file = {_toml(str(folder / ANCHORS_NAME))}\n\n"
        f"[telemetry]\nenergy_file = {_toml(str(folder / ENERGY_NAME))}\n",
        encoding="utf-8",
    )
    # The environment is left out: a demo is the same wherever it runs.
    return load_config(file=file, environment={})


def _toml(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
