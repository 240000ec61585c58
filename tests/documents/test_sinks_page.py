"""The page on sinks, held to its word: its tables open, its programs run."""

from __future__ import annotations

import base64
import os
import re
import sys
import syslog
import tomllib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from standardwebhooks import WebhookVerificationError

from tallgrass.bootstrap.sinks import open_target, sink_resources
from tallgrass.config import load_config
from tallgrass.sinks.cloud_event import cloud_event
from tallgrass.sinks.http import delivery_of
from tallgrass.sinks.http_client import Answer
from tallgrass.sinks.protocol import Delivered, Undelivered
from tallgrass.sinks.registry import kinds, open_sink
from tallgrass.sinks.signature import read_secret, signed_headers
from tests.documents.markdown import DOCS, read, rows, section, words
from tests.sinks.receiver import EVENT, event

if TYPE_CHECKING:
    from pathlib import Path

PAGE = read(DOCS / "how-to" / "sinks.md")
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
SECRETS = {"PARTNER_SECRET": SECRET, "STAC_TOKEN": "token", "NEW": SECRET, "OLD": SECRET}


def blocks(language: str) -> list[str]:
    """Return all code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_each_kind_has_its_section_and_an_example() -> None:
    """Every kind that can be opened is explained, and shown in a table that a file may hold."""
    sections = re.findall(r"^### (.*)$", section(PAGE, "Kinds"), re.MULTILINE)
    shown = set(re.findall(r'^kind = "(.*)"$', PAGE, re.MULTILINE))
    assert set(sections) == shown == set(kinds())


@pytest.mark.parametrize("text", [each for each in blocks("toml") if "[outbox.targets" in each])
def test_each_table_can_be_used(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aws_environment: None
) -> None:
    """The configuration is read, and each target opens with what it needs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inside-secret").write_text(SECRET, encoding="utf-8")
    file = tmp_path / "tallgrass.toml"
    file.write_text(text, encoding="utf-8")
    url = {"database.url": "postgresql://nobody@127.0.0.1:1/none"}
    config = load_config(file=file, environment={}, flags=url)
    environment = {**os.environ, **SECRETS}
    opened = 0
    with sink_resources(config, environment=environment) as resources:
        for target in config.routing.targets.values():
            open_target(target, resources).close()
            opened += 1
    assert opened >= 2


def test_the_table_of_answers_is_what_the_sinks_do() -> None:
    """Each status of the table has the code and the retry that it names."""
    tried = 0
    for answer, code, again in rows(section(PAGE, "What holds for every target")):
        for status in re.findall(r"\b[2-5](?:\d\d|xx)\b", answer):
            number = int(status.replace("xx", "99")) if "any other" not in answer else 418
            result = delivery_of(
                Answer(status=number, retry_after=None, body=None), "x", lambda: datetime.now(UTC)
            )
            if isinstance(result, Delivered):
                assert (code, again) == ("", "")
            else:
                assert words(code) == [result.code], answer
                assert again == ("no" if result.permanent else "yes"), answer
            tried += 1
    assert tried >= 10


def test_a_receiver_verifies_our_webhooks_as_shown() -> None:
    """The example returns the event, and refuses one that was changed."""
    [source] = [each for each in blocks("python") if "standardwebhooks" in each]
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102 - the document's own example
    body = cloud_event(EVENT)
    headers = dict(signed_headers([read_secret(SECRET)], "id", datetime.now(UTC), body))
    handled = names["handle"](body, headers, SECRET)
    assert handled["idempotencykey"] == EVENT.idempotency_key
    assert handled["data"]["item_id"] == "i"
    with pytest.raises(WebhookVerificationError):
        names["handle"](body.replace(b'"i"', b'"j"'), headers, SECRET)


def test_the_example_of_a_sink_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed as the page says, it is a kind like any other."""
    [source] = [each for each in blocks("python") if "SyslogSink" in each]
    [entry] = [each for each in blocks("toml") if "entry-points" in each]
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "sinks.py").write_text(source, encoding="utf-8")
    about = tmp_path / "my_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    points = tomllib.loads(entry)["project"]["entry-points"]["tallgrass.sinks"]
    lines = "".join(f"{name} = {place}\n" for name, place in points.items())
    (about / "entry_points.txt").write_text(f"[tallgrass.sinks]\n{lines}")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("my_package", "my_package.sinks"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    logged: list[str] = []
    monkeypatch.setattr(syslog, "syslog", logged.append)
    sink = open_sink("syslog", {"ident": "kfm"})
    small, large = sink.send(
        [event(1, payload=b'{"a":1}'), event(2, payload=b'"%b"' % (b"x" * 2000))]
    )
    sink.close()
    assert small == Delivered()
    assert isinstance(large, Undelivered)
    assert (large.code, large.permanent) == ("payload_too_large", True)
    assert logged == [f'kfm: {event(1).idempotency_key} {{"a":1}}']
