"""`tallgrass release verify`: what was downloaded is checked before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.command import Done, tallgrass
from tests.release.folder import COMMIT, SDIST, make_release, new_key

if TYPE_CHECKING:
    from pathlib import Path


def verify(folder: Path, *options: str, **settings: str) -> Done:
    """Run the command as a process, for its JSON."""
    return tallgrass("release", "verify", str(folder), *options, "--output", "json", env=settings)


def test_a_release_that_holds_ends_with_0(tmp_path: Path) -> None:
    """Version, commit, number of files, and that nobody signed it."""
    release = make_release(tmp_path / "v1.2.3")
    done = verify(release.folder)
    assert done.code == 0
    assert done.json == {
        "ok": True, "version": "1.2.3", "commit": COMMIT,
        "signature": "unsigned", "files": 7, "findings": [],
    }  # fmt: skip
    told = tallgrass("release", "verify", str(release.folder))
    assert told.code == 0
    assert "the release is unsigned" in told.out
    assert "Every file is as the list says." in told.out


def test_a_release_that_does_not_hold_ends_with_1(tmp_path: Path) -> None:
    """Each finding is on stdout, the error with its remedy on stderr."""
    release = make_release(tmp_path / "v1.2.3")
    release.path(SDIST).write_bytes(b"souRce")
    release.path("more.txt").write_text("more")
    done = verify(release.folder)
    assert (done.code, done.error["code"]) == (1, "release_broken")
    assert [(each["file"], each["kind"]) for each in done.json["findings"]] == [
        (SDIST, "changed"),
        ("more.txt", "added"),
    ]
    told = tallgrass("release", "verify", str(release.folder))
    assert told.code == 1
    assert f"changed  {SDIST}" in told.out
    assert "Every file is as the list says." not in told.out


def test_the_key_decides_who_made_it(tmp_path: Path) -> None:
    """The publisher's: valid. Another: broken. None: not checked. No key at all: a bad argument."""
    key = new_key()
    release = make_release(tmp_path / "v1.2.3", key)
    for name, text in (("own", key.public), ("other", new_key().public), ("none", b"hello")):
        (tmp_path / name).write_bytes(text)
    own = verify(release.folder, "--key", str(tmp_path / "own"))
    assert (own.code, own.json["signature"]) == (0, "valid")
    other = verify(release.folder, "--key", str(tmp_path / "other"))
    assert (other.code, other.json["signature"]) == (1, "invalid")
    assert (other.error["code"]) == "release_broken"
    assert verify(release.folder).json["signature"] == "unchecked"
    none = verify(release.folder, "--key", str(tmp_path / "none"))
    assert (none.code, none.error["code"]) == (2, "invalid_input")


def test_bad_arguments_end_with_2(tmp_path: Path) -> None:
    """A folder or a key that is not there."""
    release = make_release(tmp_path / "v1.2.3")
    assert verify(tmp_path / "nowhere").code == 2
    assert verify(release.folder, "--key", str(tmp_path / "nowhere")).code == 2


def test_without_cryptography_a_signature_is_never_called_checked(tmp_path: Path) -> None:
    """The core installs without it: a key then gives an error with its remedy, not a verdict."""
    key = new_key()
    release = make_release(tmp_path / "v1.2.3", key)
    (tmp_path / "key.pem").write_bytes(key.public)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    # Found before the installed one, and refuses: as if it were not installed.
    (hidden / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'cryptography':\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    done = verify(release.folder, "--key", str(tmp_path / "key.pem"), PYTHONPATH=str(hidden))
    assert (done.code, done.error["code"]) == (2, "signing_missing")
    assert "pip install" in done.error["remedy"]
    assert verify(release.folder, PYTHONPATH=str(hidden)).json["signature"] == "unchecked"


def test_a_hostile_name_does_not_steer_the_terminal(tmp_path: Path) -> None:
    """File names are somebody else's text: control characters are shown as escapes."""
    release = make_release(tmp_path / "v1.2.3")
    release.path("\x1b[2Jgone").write_text("x")
    told = tallgrass("release", "verify", str(release.folder))
    assert told.code == 1
    assert "\x1b" not in told.out + told.err
