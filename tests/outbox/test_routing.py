from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.config import load_config
from tallgrass.errors import ConfigError
from tallgrass.outbox.routing import Route, Routing, Target, parse_routing

if TYPE_CHECKING:
    from tallgrass.config import Config

ROUTED = """
[outbox]
lineage_target = "marquez"

[outbox.targets.lake]
kind = "sqs"
queue_url = "http://127.0.0.1:4566/000000000000/lake"
concurrency = 8
rate = 50

[outbox.targets.partners]
kind = "webhook"
url = "https://partner.example/events"
secret_env = "PARTNER_SECRET"
ordered = true

[[outbox.routes]]
events = ["nodd.item.*"]
targets = ["lake"]

[[outbox.routes]]
datasets = ["goes-*", "mrms"]
care_labels = ["public"]
targets = ["partners", "lake"]
"""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, where no configuration lies about."""
    monkeypatch.chdir(tmp_path)


def load(text: str) -> Config:
    """Load a configuration file with the given text."""
    Path("site.toml").write_text(text, encoding="utf-8")
    return load_config(file=Path("site.toml"), environment={})


class TestResolving:
    """Which targets hear of an event."""

    @pytest.mark.parametrize(
        ("event", "dataset", "label", "targets"),
        [
            # Both routes match: their targets add up, each once, in the order of the routes.
            ("nodd.item.created", "goes-glm", "public", ("lake", "partners")),
            ("nodd.item.updated", "mrms", "public", ("lake", "partners")),
            # One of them.
            ("nodd.item.created", "hrrr", "public", ("lake",)),
            ("nodd.item.created", "goes-glm", "restricted", ("lake",)),
            ("artifact_published", "goes-glm", "public", ("partners", "lake")),
            # A pattern matches the whole name, in its own case.
            ("nodd.item.created", "mrms-x", "public", ("lake",)),
            ("artifact_published", "GOES-GLM", "public", ("file",)),
            # None: the default target.
            ("artifact_published", "hydrology_flow_ks", "public", ("file",)),
            ("nodd.items.created", "hrrr", "public", ("file",)),
            # Lineage goes where it was asked for, and never to the default.
            ("openlineage.start", "hrrr", "public", ("marquez",)),
            ("openlineage.start", "goes-glm", "public", ("partners", "lake", "marquez")),
        ],
    )
    def test_matching_routes_add_up(
        self, event: str, dataset: str, label: str, targets: tuple[str, ...]
    ) -> None:
        """An event goes to the targets of every route that matches, or else to the default."""
        assert load(ROUTED).routing.targets_for(event, dataset, label) == targets

    def test_without_any_table_all_goes_to_the_file(self) -> None:
        """One target is there by itself; lineage events are made for nobody."""
        routing = load("").routing
        assert routing.targets == {"file": Target(name="file", kind="file")}
        assert routing.targets_for("nodd.item.created", "hrrr", "public") == ("file",)
        assert routing.targets_for("openlineage.start", "hrrr", "public") == ()

    def test_an_answer_is_remembered(self) -> None:
        """Patterns are matched once for each event, dataset and label, not for every event."""
        asked: list[str] = []

        class Counting(Route):
            def matches(self, event_name: str, dataset_id: str, care_label: str) -> bool:
                asked.append(event_name)
                return True

        routing = Routing(routes=(Counting(targets=("file",)),))
        for _ in range(1000):
            routing.targets_for("nodd.item.created", "hrrr", "public")
        assert asked == ["nodd.item.created"]
        routing.targets_for("nodd.item.created", "mrms", "public")
        assert len(asked) == 2


class TestTargets:
    """What a target's table says."""

    def test_settings_of_the_kind_are_kept_apart(self) -> None:
        """What all targets have is read here, the rest is the sink's."""
        targets = load(ROUTED).routing.targets
        assert targets["lake"] == Target(
            name="lake",
            kind="sqs",
            concurrency=8,
            rate=50.0,
            settings={"queue_url": "http://127.0.0.1:4566/000000000000/lake"},
        )
        assert targets["partners"].ordered
        assert targets["partners"].concurrency == 4
        assert targets["partners"].settings == {
            "url": "https://partner.example/events",
            "secret_env": "PARTNER_SECRET",
        }
        assert sorted(targets) == ["file", "lake", "partners"]

    def test_the_default_target_can_be_declared(self) -> None:
        """Whoever wants its file elsewhere says so."""
        config = load('[outbox.targets.file]\nkind = "file"\npath = "/srv/events.jsonl"\n')
        assert config.routing.targets["file"].settings == {"path": "/srv/events.jsonl"}

    def test_routing_shapes_no_output(self) -> None:
        """Items and provenance are the same whoever hears of them."""
        assert load(ROUTED).settings_version == load("").settings_version


TARGET = "[outbox.targets.lake]\nkind = 'sqs'\n"


class TestRefusals:
    """What cannot be used is refused with its place and a way out."""

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[outbox]\ntargets = 5\n", "outbox.targets must be tables"),
            ("[outbox.targets]\nlake = 5\n", "outbox.targets.lake must be a table"),
            ("[outbox.targets.lake]\nqueue = 'x'\n", "outbox.targets.lake: kind is missing"),
            ("[outbox.targets.lake]\nkind = ''\n", "kind is missing"),
            ("[outbox.targets.'a b']\nkind = 'file'\n", "a target's name is"),
            (TARGET + "concurrency = 0\n", "outbox.targets.lake.concurrency must be a whole"),
            (TARGET + "concurrency = 65\n", "from 1 to 64"),
            (TARGET + "concurrency = true\n", "concurrency"),
            (TARGET + "ordered = 'yes'\n", "outbox.targets.lake.ordered must be true or false"),
            (TARGET + "rate = 0\n", "outbox.targets.lake.rate must be a number"),
            (TARGET + "rate = inf\n", "rate"),
            (TARGET + "rate = true\n", "rate"),
            (TARGET + "secret = 'hunter2'\n", "secret_env"),
            (TARGET + "api_key = 'hunter2'\n", "api_key_file"),
            (TARGET + "Token = 'hunter2'\n", "Token_env"),
            ("[outbox]\nroutes = 5\n", "outbox.routes must be a list"),
            ("[outbox]\nroutes = [5]\n", "outbox.routes[1] must be a table"),
            ("[[outbox.routes]]\nevents = ['*']\n", "outbox.routes[1].targets must be a list"),
            ("[[outbox.routes]]\ntargets = []\n", "outbox.routes[1].targets must be a list"),
            ("[[outbox.routes]]\ntargets = ['file']\nevents = 'a'\n", "outbox.routes[1].events"),
            ("[[outbox.routes]]\ntargets = ['file']\nevents = []\n", "outbox.routes[1].events"),
            ("[[outbox.routes]]\ntargets = ['file']\ndataset = ['a']\n", "mean 'datasets'"),
            (
                "[[outbox.routes]]\ntargets = ['file']\n[[outbox.routes]]\ntargets = ['lakes']\n"
                + TARGET,
                "outbox.routes[2]: there is no target 'lakes'; did you mean 'lake'?",
            ),
            (
                "[[outbox.routes]]\ntargets = ['file']\ncare_labels = ['public', 'restrcted']\n",
                "outbox.routes[1]: there is no care label 'restrcted'; did you mean 'restricted'?",
            ),
            ("[[outbox.routes]]\ntargets = ['file']\ncare_labels = ['Pub*']\n", "no care label"),
            ("[outbox]\nroute = []\n", "did you mean 'outbox.routes'"),
        ],
    )
    def test_the_file_and_the_place_are_named(self, text: str, said: str) -> None:
        """Each refusal says the file, the table and what to write instead."""
        with pytest.raises(ConfigError) as refused:
            load(text)
        assert str(refused.value).startswith("site.toml: ")
        assert said in str(refused.value)
        assert "hunter2" not in str(refused.value)

    def test_a_pattern_of_care_labels_is_taken(self) -> None:
        """All that begin so; a pattern that takes none is a mistake."""
        routing = parse_routing({}, [{"targets": ["file"], "care_labels": ["*e*", "publi?"]}])
        assert routing.routes[0].care_labels == ("*e*", "publi?")

    def test_an_unknown_target_has_its_own_code(self) -> None:
        """A program can tell it from other mistakes."""
        routes: list[dict[str, Any]] = [{"targets": ["nobody"]}]
        with pytest.raises(ConfigError) as refused:
            parse_routing({}, routes)
        assert refused.value.code == "unknown_target"
