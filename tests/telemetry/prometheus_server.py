"""A real Prometheus on loopback that scrapes what it is given."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SOON_S = 90.0
_LISTENING = re.compile(r'msg="Listening on" .*address=(\S+)')


class Prometheus:
    """Scrapes five times a second; use it as a context manager."""

    def __init__(self, folder: Path, targets: dict[str, str]) -> None:
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("Prometheus is not installed: apt-get install prometheus")
        jobs = [
            {"job_name": name, "static_configs": [{"targets": [urllib.parse.urlsplit(url).netloc]}]}
            for name, url in targets.items()
        ]
        every = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
        # JSON is YAML too.
        config = json.dumps({"global": every, "scrape_configs": jobs})
        (folder / "prometheus.yml").write_text(config, encoding="utf-8")
        self._log = folder / "prometheus.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program, f"--config.file={folder}/prometheus.yml",
                 f"--storage.tsdb.path={folder}/prometheus",
                 "--web.listen-address=127.0.0.1:0"],
                stdout=log, stderr=log,
            )  # fmt: skip
        self._url = ""

    def __enter__(self) -> Self:
        def listening() -> str | None:
            found = _LISTENING.search(self._log.read_text(encoding="utf-8"))
            return None if found is None else found[1]

        try:
            self._url = f"http://{self._until(listening)}"
            self._until(self._ready)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(SOON_S)

    def _ready(self) -> bool:
        """Tell whether it answers queries: it listens before its own log is read back."""
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=SOON_S):  # noqa: S310 - loopback
                return True
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                return False
            raise

    def query(self, expression: str) -> dict[tuple[str, ...], float]:
        """Return the values of an expression by the values of its labels, in their names' order."""
        at = f"{self._url}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(at, timeout=SOON_S) as answer:  # noqa: S310 - loopback
            body: dict[str, Any] = json.load(answer)
        assert body["status"] == "success"
        return {
            tuple(value for _, value in sorted(one["metric"].items())): float(one["value"][1])
            for one in body["data"]["result"]
        }

    def until(self, expression: str, expected: dict[tuple[str, ...], float]) -> None:
        """Wait until an expression has a value."""
        self._until(lambda: self.query(expression) == expected, lambda: self.query(expression))

    def _until(self, condition: Any, told: Any = lambda: "nothing") -> Any:
        ends_at = time.monotonic() + SOON_S
        while not (found := condition()):
            assert self._process.poll() is None, self._log.read_text(encoding="utf-8")
            assert time.monotonic() < ends_at, told()
            time.sleep(0.1)
        return found
