"""One version of the configuration, wherever it is told: the datasets belong to it."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import here, tallgrass
from tests.pipeline.scene import Pipeline, thing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

GLM = files("tallgrass.datasets").joinpath("files", "goes-glm.toml").read_text()


class Told:
    """A pipeline with a dataset file of its own, and the versions that its commands tell."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.pipeline = Pipeline(backend, folder)
        self.file = folder / "datasets" / "goes-glm.toml"
        self.file.parent.mkdir()
        self.file.write_text(GLM)
        self.env = {
            "TALLGRASS_DATASETS_FOLDER": str(self.file.parent),
            "TALLGRASS_OBJECTS_URL": f"file:{self.pipeline.objects}",
            "TALLGRASS_QUEUE_URL": self.pipeline.config.text("queue.url"),
        }

    def shown(self) -> str:
        """Return the version of `config show`, as a process tells it."""
        done = tallgrass("config", "show", "--output", "json", env=self.env)
        assert done.code == 0, done.err
        version: str = done.json["config_version"]
        return version

    def attempted(self, number: int) -> str:
        """Ingest an object; return the version of its attempt, by plain SQL."""
        self.pipeline.feed(thing(number))
        backend = self.pipeline.backend
        done = here("ingest", "--drain", at=backend, env=self.env)
        assert done.code == 0, done.err
        ((version,),) = backend.sql(
            "SELECT a.config_version FROM wal_attempts AS a JOIN wal_records AS r USING (wal_id)"
            " WHERE r.object_uri = ?",
            thing(number).uri,
        )
        return str(version)

    def others(self) -> dict[str, str]:
        """Return what all others tell."""
        backend, plan = self.pipeline.backend, self.pipeline.folder / "plan.jsonl"
        replay = ("replay", "--dry-run", "--dataset", "goes-glm", "--since", "2026-06-01")
        drain = ("dlq", "plan", "--file", str(plan))
        (seen,) = (
            each["seen"]
            for each in here("doctor", "--skip-network", at=backend, env=self.env).json["findings"]
            if each["name"] == "configuration"
        )
        return {
            "check": here("config", "check", env=self.env).json["config_version"],
            "replay": here(*replay, at=backend, env=self.env).json["header"]["config_version"],
            "drain": here(*drain, at=backend, env=self.env).json["header"]["config_version"],
            "doctor": seen.rpartition(" ")[2],
        }


@pytest.fixture
def told(backend: Backend, tmp_path: Path) -> Told:
    """On either database."""
    return Told(backend, tmp_path)


def test_all_tell_the_same_and_a_changed_dataset_is_another(told: Told) -> None:
    """The configuration's own commands, an attempt, plans and the doctor."""
    first = told.shown()
    assert told.attempted(0) == first
    assert told.others() == dict.fromkeys(("check", "replay", "drain", "doctor"), first)
    told.file.write_text(GLM.replace("GOES GLM L2 lightning", "GLM lightning"))
    second = told.shown()
    assert second != first
    assert told.attempted(2) == second
    assert set(told.others().values()) == {second}
    kept = told.pipeline.backend.sql("SELECT config_version FROM config_versions")
    assert {first, second} <= {version for (version,) in kept}


def test_datasets_that_cannot_be_read_leave_the_version_open(tmp_path: Path) -> None:
    """The values are shown all the same; `config check` says what is wrong."""
    (tmp_path / "broken.toml").write_text("id = ")
    env = {"TALLGRASS_DATASETS_FOLDER": str(tmp_path)}
    shown = tallgrass("config", "show", "--output", "json", env=env)
    assert (shown.code, shown.json["config_version"]) == (0, None), shown.err
    assert "not known: see `tallgrass config check`" in tallgrass("config", "show", env=env).out
    checked = tallgrass("config", "check", "--output", "json", env=env)
    assert (checked.code, "broken.toml" in checked.err) == (2, True), checked.err
