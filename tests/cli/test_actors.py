"""`tallgrass actors`, and who acts in every other command."""

from __future__ import annotations

import os
import pty
import subprocess
from typing import TYPE_CHECKING

from tallgrass.governance.actors import token_sha256
from tests.cli.command import PROGRAM, environment, tallgrass
from tests.support.governance import set_up, token_of

if TYPE_CHECKING:
    from tests.cli.command import Done
    from tests.support.backends import Backend


def by(name: str) -> dict[str, str]:
    """Return the environment of a person of the test."""
    return {"TALLGRASS_TOKEN": token_of(name)}


def add(backend: Backend, name: str, role: str, token: str | None = None) -> Done:
    """Add an actor, with somebody's token."""
    env = {} if token is None else {"TALLGRASS_TOKEN": token}
    return tallgrass("actors", "add", name, "--role", role, "--output", "json", at=backend, env=env)


def test_a_token_of_bytes_that_are_no_text_is_nobodys(backend: Backend) -> None:
    """It is refused as every wrong token is."""
    add(backend, "ann", "approver")
    refused = add(backend, "bob", "approver", "tg_\udcff")
    assert (refused.code, refused.error["code"]) == (3, "unknown_actor")


def test_actors_live_by_their_tokens(backend: Backend) -> None:
    """Added, listed, renewed, revoked; each secret is printed once and kept as its hash."""
    refused = add(backend, "otto", "operator")
    assert (refused.code, refused.error["code"]) == (2, "invalid_input")
    ann = add(backend, "ann", "approver").json
    assert (ann["name"], ann["role"], ann["token"][:3]) == ("ann", "approver", "tg_")
    assert backend.sql("SELECT token_sha256, created_by FROM actors") == [
        (token_sha256(ann["token"]), "bootstrap")
    ]
    assert add(backend, "bob", "approver").error["code"] == "unknown_actor"
    shown = tallgrass(
        "actors", "add", "otto", "--role", "operator", at=backend,
        env={"TALLGRASS_TOKEN": ann["token"]},
    )  # fmt: skip
    otto = next(line for line in shown.out.splitlines() if line.startswith("tg_"))
    assert add(backend, "eve", "approver", otto).error["code"] == "not_authorized"
    renewed = tallgrass(
        "actors", "rotate", "otto", "--output", "json", at=backend, env={"TALLGRASS_TOKEN": otto}
    ).json["token"]
    assert token_sha256(renewed) != token_sha256(otto)
    gone = tallgrass("actors", "rotate", "otto", at=backend, env={"TALLGRASS_TOKEN": otto})
    assert gone.code == 3
    revoked = tallgrass(
        "actors", "revoke", "otto", "--output", "json", at=backend,
        env={"TALLGRASS_TOKEN": ann["token"]},
    )  # fmt: skip
    assert revoked.json == {"revoked": "otto"}
    last = tallgrass(
        "actors", "revoke", "ann", "--output", "json", at=backend,
        env={"TALLGRASS_TOKEN": ann["token"]},
    )  # fmt: skip
    assert (last.code, last.error["code"]) == (3, "last_approver")
    assert "Add another approver first" in last.error["remedy"]
    listed = tallgrass("actors", "list", "--output", "json", at=backend)
    assert [(a["name"], a["role"], a["revoked_at"] is None) for a in listed.json["actors"]] == [
        ("ann", "approver", True), ("otto", "operator", False),
    ]  # fmt: skip
    everything = listed.out + str(backend.sql("SELECT * FROM actors"))
    everything += str(backend.sql("SELECT * FROM audit_log"))
    assert not any(token in everything for token in (ann["token"], otto, renewed))


def test_a_store_without_actors_says_how_to_begin(backend: Backend) -> None:
    """Nothing can be approved, and the message names the first step; a stray token is nobody's."""
    assert "tallgrass actors add NAME" in tallgrass("actors", "list", at=backend).out
    for command in (
        ("approvals", "approve", "3f0a5b1c-2d3e-4cc1-9d7e-0190c7e85f4e"),
        ("freeze", "on", "--reason", "x"),
    ):
        done = tallgrass(*command, "--output", "json", at=backend, env=by("ann"))
        assert (done.code, done.error["code"]) == (3, "no_actors")
        assert "tallgrass actors add" in done.error["remedy"]


def test_on_a_terminal_the_token_is_typed_unseen(backend: Backend) -> None:
    """It is asked for on the terminal, and not shown there."""
    set_up(backend).stores.close()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "--database", backend.url, "freeze", "on", "--reason", "x", "--output", "json"],
        stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=environment(),
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while b"Token" not in seen:
        seen += os.read(ours, 1024)
    os.write(ours, token_of("otto").encode() + b"\n")
    out, _ = process.communicate(timeout=120)
    os.close(ours)
    assert process.returncode == 0
    assert b"frozen" in out
    assert token_of("otto").encode() not in seen + out
    assert backend.sql("SELECT DISTINCT actor FROM kill_switches") == [("otto",)]
