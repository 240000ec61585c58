"""`tallgrass console` as a real process, on both databases."""

from __future__ import annotations

import http.client
import http.cookiejar
import json
import ssl
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tallgrass.api.hosts import is_loopback
from tests.cli.command import tallgrass
from tests.support.console import console_process
from tests.support.governance import set_up, token_of
from tests.support.sns import pem_of, rsa_key

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


#: What happens before a database is met, or is the same on each.
sqlite_alone = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


class Browser:
    """A client with a cookie jar that follows redirects."""

    def __init__(self) -> None:
        jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))

    def open(self, url: str, **headers: str) -> Any:
        """Open an address of the console."""
        assert url.startswith("http://127.0.0.1:")
        return self._opener.open(urllib.request.Request(url, headers=headers), timeout=60)  # noqa: S310

    def text(self, url: str) -> str:
        """Return a page."""
        with self.open(url) as answer:
            found: str = answer.read().decode()
            return found


def test_its_link_signs_a_viewer_in_once(filled: Backend) -> None:
    """Without a token the link is a viewer's; the figures are those of the ledger."""
    with console_process(filled.url) as served:
        browser = Browser()
        page = browser.text(served.link)
        assert '<span class="name" title="signed in as viewer">viewer</span>' in page
        assert '<a href="/records" data-figure="units">10</a>' in page
        with pytest.raises(urllib.error.HTTPError) as used:
            Browser().open(served.link)
        used.value.close()
        assert used.value.code == 401


@sqlite_alone
def test_the_link_signs_in_the_actor_of_the_token(filled: Backend) -> None:
    """With TALLGRASS_TOKEN the link is that actor's; the token itself is shown nowhere."""
    set_up(filled)
    with console_process(filled.url, TALLGRASS_TOKEN=token_of("otto")) as served:
        page = Browser().text(served.link)
        assert 'title="signed in as operator">otto</span>' in page
        assert token_of("otto") not in page + served.link


def test_live_figures_come_by_themselves(filled: Backend) -> None:
    """A listener gets the figures, then newer ones; it ends when the server does."""
    with console_process(filled.url) as served:
        browser = Browser()
        browser.text(served.link)
        events: list[dict[str, Any]] = []
        with browser.open(f"{served.url}/api/v1/events") as stream:
            assert stream.headers.get_content_type() == "text/event-stream"
            while len(events) < 2:
                line = stream.readline().decode()
                if line.startswith("data: "):
                    events.append(json.loads(line.removeprefix("data: ")))
        assert [each["units"] for each in events] == [10, 10]
        assert events[0]["at"] < events[1]["at"]


def test_it_ends_in_good_order_while_somebody_listens(filled: Backend) -> None:
    """SIGTERM lets listeners go: the process ends with 0, quietly, and the stream with it."""
    browser = Browser()
    with console_process(filled.url) as served:
        browser.text(served.link)
        stream = browser.open(f"{served.url}/api/v1/events")
        assert stream.readline().startswith(b"retry")
    with stream:
        stream.read()


@sqlite_alone
def test_other_machines_are_not_answered_in_the_clear(backend: Backend) -> None:
    """An address that others reach needs TLS or a word that plain HTTP is meant."""
    refused = tallgrass("console", "--host", "0.0.0.0", "--port", "0", at=backend)  # noqa: S104
    assert refused.code == 3
    assert "console_exposed" in refused.err


@pytest.mark.parametrize(
    ("host", "ours_alone"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - no address is bound
        ("::", False),
        ("192.0.2.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, *, ours_alone: bool) -> None:
    """The unspecified address, and any name but localhost, may be anybody's."""
    assert is_loopback(host) is ours_alone


@sqlite_alone
def test_plain_http_for_others_must_be_said(filled: Backend) -> None:
    """With the flag it answers, by a name that is allowed and by no other."""
    flags = ("--host", "0.0.0.0", "--allow-plain-http", "--allow-host", "console.example")  # noqa: S104
    with console_process(filled.url, *flags) as served:
        port = served.url.rpartition(":")[2]
        address = f"http://127.0.0.1:{port}/sign-in"
        with Browser().open(address, Host="console.example") as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError) as refused:
            Browser().open(address, Host="other.example")
        refused.value.close()
        assert refused.value.code == 421


@sqlite_alone
@pytest.mark.parametrize(("flags", "secure"), [((), False), (("--behind-proxy",), True)])
def test_a_proxy_is_believed_where_one_is_meant(
    filled: Backend, flags: tuple[str, ...], *, secure: bool
) -> None:
    """Behind a proxy with TLS the cookie is for HTTPS alone; else nobody is believed."""

    class Staying(urllib.request.HTTPRedirectHandler):
        """Follows no redirect."""

        def redirect_request(self, *_args: object) -> None:
            return None

    with console_process(filled.url, *flags) as served:
        request = urllib.request.Request(served.link, headers={"X-Forwarded-Proto": "https"})  # noqa: S310
        with pytest.raises(urllib.error.HTTPError) as led:
            urllib.request.build_opener(Staying()).open(request, timeout=60)
        led.value.close()
        assert ("Secure" in led.value.headers["Set-Cookie"]) is secure


@sqlite_alone
def test_tls_needs_both_files(backend: Backend, tmp_path: Path) -> None:
    """A certificate without its key, or one that cannot be read, ends the command."""
    lone = tallgrass("console", "--tls-certificate", "a.pem", at=backend)
    assert (lone.code, "go together" in lone.err) == (2, True)
    flags = ("--tls-certificate", str(tmp_path / "no.pem"), "--tls-key", str(tmp_path / "no.key"))
    missing = tallgrass("console", *flags, at=backend)
    assert missing.code == 2
    assert "no.pem cannot be read" in missing.err


@pytest.fixture
def tls(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of localhost that trusts itself, and its key."""
    key, now = rsa_key("console"), datetime.now(UTC)
    valid = (now - timedelta(days=1), now + timedelta(days=1))
    made = (tmp_path / "console.pem", tmp_path / "console.key")
    made[0].write_bytes(pem_of("localhost", key, dns=("localhost",), valid=valid))
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    made[1].write_bytes(key.private_bytes(*form))
    return made


@sqlite_alone
def test_it_answers_by_https_with_the_certificate_it_is_given(
    filled: Backend, tls: tuple[Path, Path]
) -> None:
    """Who trusts the certificate is served, with a cookie for HTTPS alone; others are not."""
    flags = ("--tls-certificate", str(tls[0]), "--tls-key", str(tls[1]))
    with console_process(filled.url, *flags) as served:
        assert served.link.startswith("https://127.0.0.1:")
        link = served.link.replace("127.0.0.1", "localhost", 1)
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(link, timeout=60)  # noqa: S310
        with pytest.raises((OSError, http.client.HTTPException)):
            urllib.request.urlopen(link.replace("https", "http", 1), timeout=60)  # noqa: S310
        jar = http.cookiejar.CookieJar()
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=tls[0])),
            urllib.request.HTTPCookieProcessor(jar),
        )
        with opener.open(link, timeout=60) as answer:
            assert 'data-figure="units">10<' in answer.read().decode()
        assert [each.secure for each in jar] == [True]


def test_a_database_that_is_not_there_ends_it(tmp_path: Path) -> None:
    """Before anything is served the database must be usable, and no file is made."""
    done = tallgrass("console", "--store", f"sqlite:///{tmp_path / 'no.db'}", "--port", "0")
    assert done.code in {1, 4}
    assert not (tmp_path / "no.db").exists()


@sqlite_alone
def test_a_token_that_is_nobodys_ends_it(backend: Backend) -> None:
    """A wrong TALLGRASS_TOKEN is refused, not turned into a viewer."""
    set_up(backend)
    done = tallgrass("console", "--port", "0", at=backend, env={"TALLGRASS_TOKEN": "tg_wrong"})
    assert done.code == 3
    assert "unknown_actor" in done.err
