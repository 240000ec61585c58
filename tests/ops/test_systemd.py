"""The systemd units: commands that exist, little that can be reached, and a good end."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tallgrass.cli.main import COMMANDS, cli
from tests.documents.markdown import ROOT, read

FOLDER = ROOT / "ops" / "systemd"
SERVICES = sorted(path.name for path in FOLDER.glob("*.service"))
PROGRAM = "/opt/tallgrass/bin/tallgrass"
#: What each service must not be without.
HARDENING = {
    "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict",
    "ProtectHome": "yes", "PrivateTmp": "yes", "PrivateDevices": "yes", "RestrictNamespaces": "yes",
    "ProtectKernelModules": "yes", "ProtectKernelTunables": "yes", "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes", "RestrictSUIDSGID": "yes", "LockPersonality": "yes",
    "SystemCallArchitectures": "native", "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "UMask": "0077",
}  # fmt: skip


def settings(name: str) -> dict[str, list[str]]:
    """Return each directive's values, in order."""
    found: dict[str, list[str]] = {}
    for line in read(FOLDER / name).splitlines():
        if match := re.fullmatch(r"(\w+)=(.*)", line):
            found.setdefault(match[1], []).append(match[2])
    return found


def require_readable(arguments: list[str]) -> None:
    """Let the command line read the arguments as it would, without running anything."""
    command: click.Command = cli
    context = click.Context(cli, info_name="tallgrass")
    while isinstance(command, click.Group):
        if command.invoke_without_command and arguments[0] not in command.list_commands(context):
            break
        found = command.get_command(context, arguments[0])
        assert found is not None, arguments[0]
        command, arguments = found, arguments[1:]
    # A command remembers its help option: others in this process must see the shipped one.
    command.make_context("tallgrass", list(arguments), **cli.context_settings)


def test_each_part_of_the_pipeline_has_its_unit() -> None:
    """Worker, dispatcher, console, metrics, and what seals the audit log."""
    names = ("console", "dispatcher", "metrics", "seal", "worker")
    assert [f"tallgrass-{name}.service" for name in names] == SERVICES
    timer = settings("tallgrass-seal.timer")
    assert timer["OnUnitActiveSec"] == ["5min"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_starts_a_command_that_exists(name: str) -> None:
    """Its arguments are read by the command line as it stands."""
    (start,) = settings(name)["ExecStart"]
    program, *arguments = start.split()
    assert program == PROGRAM
    if arguments[0] in COMMANDS:
        require_readable(arguments)
    else:
        assert arguments[0] == "console"


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_reaches_little(name: str) -> None:
    """A user of its own, a system that it cannot write, no privileges, secrets in no unit."""
    found = settings(name)
    assert found["User"] == ["tallgrass"]
    assert found["StateDirectory"] == ["tallgrass"]
    for directive, value in HARDENING.items():
        assert found.get(directive) == [value], directive
    assert found["SystemCallFilter"][0] == "@system-service"
    assert found["Environment"] == ["TALLGRASS_CONFIG=/etc/tallgrass/tallgrass.toml"]
    assert not re.search(r"(?i)(password|secret|token)\s*=\s*\S", read(FOLDER / name))


@pytest.mark.parametrize("name", [name for name in SERVICES if "seal" not in name])
def test_a_service_that_fails_comes_back(name: str) -> None:
    """Always, but for bad arguments, which no restart mends; and it has time to end well."""
    found = settings(name)
    assert (found["Restart"], found["RestartPreventExitStatus"]) == (["always"], ["2"])
    assert found["StartLimitIntervalSec"] == ["0"]
    assert int(found["TimeoutStopSec"][0]) >= 30
    assert found["WantedBy"] == ["multi-user.target"]


def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    """`systemd-analyze verify` and `security` of systemd itself, where it is installed."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not installed")
    units = []
    for path in sorted(FOLDER.iterdir()):
        # The program must be there for systemd to be content.
        unit = tmp_path / path.name
        program = str(Path(sys.executable).with_name("tallgrass"))
        unit.write_text(read(path).replace(PROGRAM, program), encoding="utf-8")
        units.append(str(unit))
    done = subprocess.run([tool, "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    services = [unit for unit in units if unit.endswith(".service")]
    judged = subprocess.run(
        [tool, "security", "--offline=true", "--threshold=20", *services],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert judged.returncode == 0, judged.stdout
