from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ConfigError
from tallgrass.sinks.protocol import Delivered, Undelivered
from tallgrass.sinks.registry import kinds, open_sink
from tallgrass.sinks.resources import SinkResources
from tests.sinks.receiver import event

if TYPE_CHECKING:
    from pathlib import Path

OURS = ("file", "graph-store", "notify", "openlineage", "sns", "sqs", "stac-api", "webhook")


def install(folder: Path, entry: str, source: str, kind: str = "pigeon") -> None:
    """Install a small package with a sink into a folder, as pip leaves one behind."""
    folder.mkdir(exist_ok=True)
    (folder / "pigeon_post.py").write_text(textwrap.dedent(source), encoding="utf-8")
    about = folder / "pigeon_post-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon-post\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[tallgrass.sinks]\n{kind} = {entry}\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that packages are found in."""
    folder = tmp_path / "packages"
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "pigeon_post", raising=False)
    return folder


def test_our_own_kinds_are_known() -> None:
    """In order, each by the name that the configuration uses."""
    assert kinds() == OURS


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("file", {}),
        ("sqs", {"url": "arn:aws:sqs:us-east-1:000000000000:q"}),
        ("sns", {"topic": "arn:aws:sns:us-east-1:000000000000:t"}),
        ("webhook", {"url": "https://example.com/", "secret_env": "SECRET"}),
        ("openlineage", {"url": "http://127.0.0.1:5000"}),
        ("stac-api", {"url": "http://127.0.0.1:8080"}),
        ("graph-store", {"url": "http://127.0.0.1:7878/store"}),
        ("notify", {}),
    ],
)
def test_each_kind_opens_without_any_connection(
    kind: str, settings: dict[str, Any], aws_environment: None
) -> None:
    """What a target needs is asked for at its first event; a wrong setting is told at once."""
    environment = {"SECRET": "whsec_" + "QUJD" * 10}
    resources = SinkResources(environment=environment, notify=lambda *_: None)
    sink = open_sink(kind, settings, resources)
    assert sink.batch_max >= 1
    sink.close()
    with pytest.raises(ConfigError, match="unknown setting 'nonsense'"):
        open_sink(kind, {**settings, "nonsense": 1}, resources)


def test_an_unknown_kind_is_told_with_the_nearest() -> None:
    """And with all that there are."""
    with pytest.raises(ConfigError) as caught:
        open_sink("webhok", {})
    assert str(caught.value) == (
        f"there is no kind of target 'webhok'; did you mean 'webhook'? (known: {', '.join(OURS)})"
    )


def test_a_sink_of_another_package_is_found(packages: Path, tmp_path: Path) -> None:
    """By its entry point; it gets the settings of its target and is sent events."""
    install(
        packages,
        "pigeon_post:open_loft",
        """
        from pathlib import Path

        from tallgrass.sinks.options import Options
        from tallgrass.sinks.protocol import Delivered


        class Loft:
            batch_max = 2

            def __init__(self, path):
                self.path = path

            def send(self, events):
                for event in events:
                    with self.path.open("ab") as file:
                        file.write(event.payload + b"\\n")
                return [Delivered() for _ in events]

            def close(self):
                pass


        def open_loft(settings):
            options = Options(settings)
            path = Path(options.text("loft"))
            options.done()
            return Loft(path)
        """,
    )
    assert kinds() == tuple(sorted((*OURS, "pigeon")))
    sink = open_sink("pigeon", {"loft": str(tmp_path / "loft")})
    assert sink.send([event(1, payload=b"1"), event(2, payload=b"2")]) == [Delivered()] * 2
    sink.close()
    assert (tmp_path / "loft").read_bytes() == b"1\n2\n"
    with pytest.raises(ConfigError, match="unknown setting 'lofft'; did you mean 'loft'"):
        open_sink("pigeon", {"loft": "x", "lofft": "y"})


@pytest.mark.parametrize(
    ("entry", "source", "text"),
    [
        ("pigeon_post:gone", "", "kind 'pigeon' of pigeon-post cannot be loaded"),
        ("pigeon_post:f", "import no_such_module", "cannot be loaded: No module named"),
        ("pigeon_post:f", "def f(settings): return 7", "it has no batch_max, send, close"),
        (
            "pigeon_post:f",
            "def f(settings): raise ValueError('no loft')",
            "kind 'pigeon' of pigeon-post cannot be opened: ValueError: no loft",
        ),
        ("pigeon_post:f", "def f(settings): raise SystemExit(3)", "opened: SystemExit: 3"),
        (
            "pigeon_post:f",
            """
            class f:
                batch_max = None
                def __init__(self, settings): pass
                def send(self, events): pass
                def close(self): pass
            """,
            "its batch_max is None",
        ),
    ],
)
def test_a_broken_package_is_told_by_its_name(
    packages: Path, entry: str, source: str, text: str
) -> None:
    """As configuration, not as a traceback."""
    install(packages, entry, source)
    with pytest.raises(ConfigError, match=text):
        open_sink("pigeon", {})


def test_no_package_takes_the_place_of_a_kind_of_ours(packages: Path, tmp_path: Path) -> None:
    """A file target writes the file, whatever is installed."""
    install(packages, "pigeon_post:f", "def f(settings): raise RuntimeError", kind="file")
    sink = open_sink("file", {"path": str(tmp_path / "x")})
    assert not isinstance(sink.send([event()])[0], Undelivered)
    assert kinds() == OURS


def test_a_kind_whose_library_is_missing_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What to install."""
    for name in [name for name in sys.modules if name.startswith("tallgrass.sinks.")]:
        if name.endswith((".sqs", ".sns", ".aws_batch")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigError, match=r"sqs needs pip install 'tallgrass\[aws\]'"):
        open_sink("sqs", {"url": "arn:aws:sqs:us-east-1:000000000000:q"})


def test_the_list_of_kinds_loads_no_library() -> None:
    """A command that only reads the configuration stays quick."""
    code = (
        "import sys, json; from tallgrass.sinks.registry import kinds; kinds(); "
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"boto3", "botocore", "rdflib", "psycopg", "tallgrass.sinks.sqs"}
