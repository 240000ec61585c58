"""Container file and compose file: pinned, without privileges, without secrets."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tallgrass.cli.main import COMMANDS
from tallgrass.governance.switches import SwitchScope
from tallgrass.settings import SETTINGS
from tests.cli.command import environment
from tests.documents.markdown import ROOT, read
from tests.ops.test_systemd import require_readable
from tests.support.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.backends import Backend

FOLDER = ROOT / "ops" / "container"
CONTAINERFILE = read(FOLDER / "Containerfile")
COMPOSE: dict[str, Any] = yaml.safe_load(read(FOLDER / "compose.yaml"))
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = sorted(SERVICES.keys() - {"db"})
PINNED = re.compile(r"[a-z]+:\d+\.\d+(\.\d+)?(-[a-z-]+)?")
PROJECT = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]


def stages() -> list[str]:
    """Return the instructions of each stage, joined lines made one."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", CONTAINERFILE, flags=re.MULTILINE))
    return [f"FROM {part}" for part in re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]]


def sealing(every_s: float = 300) -> str:
    """Return the script that seals, as the shell of the container gets it, at another pace."""
    (script,) = SERVICES["seal"]["command"]
    text: str = script.replace("$$", "$")
    assert text.count("sleep 300 ") == 1
    return text.replace("sleep 300 ", f"sleep {every_s} ")


# --- the image ------------------------------------------------------------------------------------


def test_images_are_pinned_by_version() -> None:
    """No `latest`, no moving tag, no address of a registry."""
    bases = re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)
    used = [*bases, *(service["image"] for service in SERVICES.values())]
    assert len(bases) == 2
    for image in used:
        assert PINNED.fullmatch(image), image


def test_the_last_stage_has_nothing_to_build_with() -> None:
    """What builds stays in the first stage; what is copied is the environment alone."""
    build, last = stages()
    assert "pip install" in build
    assert "--constraint" in build
    assert "pip uninstall --yes setuptools pip" in build
    assert "pip install" not in last
    assert "apt-get" not in last
    assert re.findall(r"^COPY (.*)$", last, re.MULTILINE) == [
        "--from=build /opt/tallgrass /opt/tallgrass"
    ]
    assert "rm -rf /usr/local/lib/python3.11/ensurepip" in last


def test_the_image_runs_as_nobody_special() -> None:
    """A user by number, so that platforms can see that it is not root."""
    _, last = stages()
    users = re.findall(r"^USER (.*)$", last, re.MULTILINE)
    assert users == ["10001:10001"]
    assert last.index("USER 10001") < last.index("ENTRYPOINT")
    assert 'ENTRYPOINT ["tallgrass"]' in last
    assert "STOPSIGNAL SIGTERM" in last


def test_the_image_installs_extras_that_exist() -> None:
    """All that runs a service; neither tests nor documents."""
    (extras,) = re.findall(r"none-any\.whl\[([a-z,]+)\]", stages()[0])
    names = set(extras.split(","))
    assert names <= set(PROJECT["optional-dependencies"])
    assert {"aws", "formats", "postgres", "telemetry", "web"} <= names
    assert "dev" not in names


def test_nothing_else_of_the_folder_reaches_the_build() -> None:
    """No key, no configuration, no history is sent along."""
    lines = read(FOLDER / "Containerfile.dockerignore").splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "*", "!constraints.txt", "!releases",
    ]  # fmt: skip


# --- the services ---------------------------------------------------------------------------------


def test_the_services_are_the_pipeline() -> None:
    """Worker, dispatcher, console, metrics, seal and PostgreSQL, and what prepares the tables."""
    assert OURS == ["console", "dispatcher", "metrics", "migrate", "seal", "worker"]
    assert {SERVICES[name]["image"] for name in OURS} == {f"tallgrass:{PROJECT['version']}"}
    assert SERVICES["db"]["image"].startswith("postgres:")


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_a_command_that_exists(name: str) -> None:
    """Its arguments are read by the command line as it stands."""
    arguments = SERVICES[name]["command"]
    if name == "seal":
        (line,) = re.findall(r"^ +tallgrass (.*) &&", sealing(), re.MULTILINE)
        arguments = line.split()
    assert arguments[0] in COMMANDS
    require_readable(arguments)


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - {"migrate"}))
def test_a_service_tells_whether_it_is_well(name: str) -> None:
    """A check with a limit, at the port that the service itself listens at."""
    check = SERVICES[name]["healthcheck"]
    assert check["test"][0] == "CMD"
    assert {"interval", "timeout", "retries"} <= set(check)
    if name not in {"db", "seal"}:
        (port,) = re.findall(r":(\d+)/", check["test"][-1])
        assert port in SERVICES[name]["command"]
        compile(check["test"][-1], name, "exec")


@pytest.mark.parametrize("name", OURS)
def test_a_service_has_no_privileges(name: str) -> None:
    """A file system that it cannot write but for its state, no capabilities, none to be gained."""
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert service["volumes"] == ["state:/var/lib/tallgrass"]


def test_services_wait_for_what_they_need() -> None:
    """PostgreSQL answers, then the tables are made, then everything else starts."""
    assert SERVICES["migrate"]["depends_on"] == {"db": {"condition": "service_healthy"}}
    for name in set(OURS) - {"migrate"}:
        assert SERVICES[name]["depends_on"] == {
            "migrate": {"condition": "service_completed_successfully"}
        }


def test_no_secret_stands_in_the_file() -> None:
    """Passwords come from outside, and without one nothing starts."""
    secret = re.compile(r"PASSWORD|TOKEN|SECRET|KEY")
    found = 0
    for service in SERVICES.values():
        for name, value in service["environment"].items():
            assert not re.search(r"://[^/@]*:[^/@]*@", str(value)), name
            if secret.search(name):
                assert re.fullmatch(r"\$\{DB_PASSWORD:\?[^}]+\}", value), name
                found += 1
    assert found == len(SERVICES)


def test_the_settings_of_the_services_exist() -> None:
    """Each TALLGRASS_ variable is one that the configuration reads."""
    known = {f"TALLGRASS_{setting.key.upper().replace('.', '_')}" for setting in SETTINGS}
    for name in OURS:
        given = {key for key in SERVICES[name]["environment"] if key.startswith("TALLGRASS_")}
        assert given <= known
        assert {"TALLGRASS_DATABASE_URL", "TALLGRASS_QUEUE_URL"} <= given


def test_ports_are_open_to_this_machine_alone() -> None:
    """What is published is bound to loopback; the database is not published at all."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert "ports" not in SERVICES["db"]


# --- the seal -------------------------------------------------------------------------------------


def test_the_log_is_sealed_as_often_as_by_the_timer() -> None:
    """Both ways of running the services protect an entry within five minutes."""
    timer = read(ROOT / "ops" / "systemd" / "tallgrass-seal.timer")
    assert re.findall(r"^OnUnitActiveSec=(.*)$", timer, re.MULTILINE) == ["5min"]
    assert "sleep 300 &" in sealing()
    assert SERVICES["seal"]["entrypoint"] == ["/bin/sh", "-c"]


def test_entries_are_sealed_again_and_again_until_the_container_stops(tmp_path: Path) -> None:
    """Each new entry is in the chain soon; a seal that failed is tried again; SIGTERM ends it."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    sealed = tmp_path / "sealed"
    script = sealing(0.2).replace("/tmp/sealed", str(sealed))  # noqa: S108 - the container's own
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = environment(TALLGRASS_DATABASE_URL=url, PATH=path)
    with subprocess.Popen(
        [*SERVICES["seal"]["entrypoint"], script],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            assert process.stderr is not None
            # There is no database yet.
            assert b"error" in process.stderr.readline()
            assert not sealed.exists()
            backend = prepare("sqlite", url)
            for number in (1, 2):
                stores = backend.open()
                stores.switches.set(
                    SwitchScope.INGEST, "hrrr", is_on=number == 1, actor="ann", reason="test"
                )
                stores.close()
                wait_until(lambda: unsealed(backend) == 0)
            wait_until(sealed.exists)
            backend.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert (tmp_path / "tallgrass-audit-anchors.jsonl").read_text(encoding="utf-8")


def unsealed(backend: Backend) -> int:
    """Count entries of the audit log that are in no chain."""
    query = (
        "SELECT count(*) FROM audit_log WHERE entry_id NOT IN (SELECT entry_id FROM audit_seals)"
    )
    ((number,),) = backend.sql(query)
    return int(number)


def wait_until(holds: Callable[[], bool]) -> None:
    """Look until it holds, for a minute at most."""
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)
