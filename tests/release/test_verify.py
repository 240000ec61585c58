"""What `release verify` finds: each kind of tampering, by its file and kind."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import InvalidInput
from tallgrass.release.manifest import BYTES_MAX, ManifestRefused, read_manifest
from tallgrass.release.verify import ReleaseReport, verify_release
from tests.release.folder import COMMIT, LISTED, SDIST, WHEEL, Release, make_release, new_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Made by OpenSSL: a key for other work.
X25519 = (
    b"-----BEGIN PUBLIC KEY-----\n"
    b"MCowBQYDK2VuAyEAu+vXfI2WU7o3qxTiBEBQF4kxKZGbuj7prvvWeTvHuk4=\n"
    b"-----END PUBLIC KEY-----\n"
)


@pytest.fixture
def release(tmp_path: Path) -> Release:
    """A release that nobody signed."""
    return make_release(tmp_path / "v1.2.3")


@pytest.fixture
def signed(tmp_path: Path) -> Release:
    """A signed release."""
    return make_release(tmp_path / "v1.2.3", new_key())


def found(report: ReleaseReport) -> set[tuple[str, str]]:
    """Return file and kind of each finding."""
    return {(each.file, each.kind.value) for each in report.findings}


def public_of(release: Release) -> bytes:
    """Return the key that a user has."""
    assert release.key is not None
    return release.key.public


# --- as it should be ------------------------------------------------------------------------------


def test_a_whole_release_holds(release: Release) -> None:
    """Nothing is found; version and commit are those of the list; it is told as unsigned."""
    report = verify_release(release.folder)
    assert (report.holds, report.findings, report.signature.value) == (True, (), "unsigned")
    assert report.manifest is not None
    assert (report.manifest.version, report.manifest.commit) == ("1.2.3", COMMIT)
    assert {each.name for each in report.manifest.files} == LISTED


def test_the_list_holds_the_hash_of_each_file(release: Release) -> None:
    """Names, sizes and SHA-256 as hashlib gives them, in a form that sha256sum checks."""
    with zipfile.ZipFile(release.path("manifest.zip")) as archive:
        sums = archive.read("SHA256SUMS").decode()
        listed = json.loads(archive.read("manifest.json"))["files"]
    expected = {
        name: hashlib.sha256(release.path(name).read_bytes()).hexdigest() for name in LISTED
    }
    assert {each["name"]: each["sha256"] for each in listed} == expected
    assert {each["name"]: each["size"] for each in listed}[WHEEL] == 5
    assert sums == "".join(f"{expected[name]}  {name}\n" for name in sorted(LISTED))
    if tool := shutil.which("sha256sum"):
        command = [tool, "--check", "--strict"]
        done = subprocess.run(command, input=sums.encode(), cwd=release.folder, check=False)
        assert done.returncode == 0


def test_the_same_files_give_the_same_list(release: Release) -> None:
    """Byte for byte: a list holds no time and no order of its own."""
    before = release.path("manifest.zip").read_bytes()
    release.seal(files=tuple(reversed(release.listed())))
    assert release.path("manifest.zip").read_bytes() == before


def test_a_signed_release_holds_with_its_key(signed: Release) -> None:
    """The publisher's key says valid; without a key nothing is claimed."""
    report = verify_release(signed.folder, public_of(signed))
    assert (report.findings, report.signature.value) == ((), "valid")
    assert verify_release(signed.folder).signature.value == "unchecked"


def test_another_tool_confirms_the_signature(signed: Release, tmp_path: Path) -> None:
    """64 bytes over manifest.zip, as OpenSSL checks them where it is installed."""
    signature = signed.path("signature.sig")
    assert signature.stat().st_size == 64
    tool = shutil.which("openssl")
    if tool is None:
        return
    (tmp_path / "key.pem").write_bytes(public_of(signed))
    command = [
        tool, "pkeyutl", "-verify", "-pubin", "-inkey", str(tmp_path / "key.pem"), "-rawin",
        "-in", str(signed.path("manifest.zip")), "-sigfile", str(signature),
    ]  # fmt: skip
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    signature.write_bytes(bytes(64))
    assert subprocess.run(command, check=False, capture_output=True).returncode != 0


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(LISTED))
def test_a_changed_byte_is_found(release: Release, name: str) -> None:
    """One bit of any file: that file is told as changed."""
    data = bytearray(release.path(name).read_bytes())
    data[0] ^= 1
    release.path(name).write_bytes(data)
    assert (name, "changed") in found(verify_release(release.folder))


@pytest.mark.parametrize("name", [*sorted(LISTED), "manifest.zip"])
def test_a_missing_file_is_found(release: Release, name: str) -> None:
    """Any file that is gone is told as missing."""
    release.path(name).unlink()
    assert (name, "missing") in found(verify_release(release.folder))


def test_an_added_file_is_found(release: Release) -> None:
    """A file that is not listed may be anything."""
    release.path("setup.py").write_bytes(b"import os")
    assert found(verify_release(release.folder)) == {("setup.py", "added")}


@pytest.mark.parametrize("name", ["sbom.spdx.json", "slsa-attestation.json", WHEEL, SDIST])
def test_a_list_without_a_part_is_found(release: Release, name: str) -> None:
    """Whoever leaves out a part and lists the rest anew is found too."""
    release.path(name).unlink()
    release.seal()
    findings = found(verify_release(release.folder))
    assert findings & {(name, "missing"), ("manifest.zip", "refused")}


def test_a_link_and_a_folder_are_refused(release: Release, tmp_path: Path) -> None:
    """A link out of the release is not followed, even where its bytes would fit."""
    outside = tmp_path / "outside"
    shutil.move(release.path(WHEEL), outside)
    release.path(WHEEL).symlink_to(outside)
    release.path("more").mkdir()
    os.mkfifo(release.path("pipe"))
    findings = found(verify_release(release.folder))
    assert {(WHEEL, "refused"), ("more", "refused"), ("pipe", "refused")} <= findings
    assert (WHEEL, "missing") in findings


def test_what_is_no_folder_is_a_bad_argument(tmp_path: Path) -> None:
    """A release is a folder."""
    with pytest.raises(InvalidInput):
        verify_release(tmp_path / "nowhere")


# --- the signature --------------------------------------------------------------------------------


def test_an_unsigned_release_fails_where_a_key_is_given(release: Release) -> None:
    """Who asks for a signature does not get along without."""
    report = verify_release(release.folder, new_key().public)
    assert found(report) == {("signature.sig", "unsigned")}
    assert report.signature.value == "unsigned"


def test_another_key_is_found(signed: Release) -> None:
    """A release that somebody else signed is not the publisher's."""
    report = verify_release(signed.folder, new_key().public)
    assert found(report) == {("signature.sig", "signed_by_other")}
    assert report.signature.value == "invalid"


def test_a_release_made_anew_by_somebody_else_is_found(signed: Release) -> None:
    """A changed wheel with a list and a signature to match fails by the publisher's key alone."""
    publisher = public_of(signed)
    signed.path(SDIST).write_bytes(b"something else")
    forged = Release(signed.folder, new_key())
    forged.seal()
    kinds = {kind for _, kind in found(verify_release(signed.folder, publisher))}
    assert "signed_by_other" in kinds


def test_a_changed_list_is_found_by_its_signature(signed: Release) -> None:
    """The signature is over the list's bytes, not over what they mean."""
    listed = signed.path("manifest.zip")
    listed.write_bytes(listed.read_bytes() + b"\0")
    assert ("signature.sig", "signed_by_other") in found(
        verify_release(signed.folder, public_of(signed))
    )


@pytest.mark.parametrize("size", [0, 63, 65, 1 << 16])
def test_a_signature_of_another_length_is_none(signed: Release, size: int) -> None:
    """Cut, grown or empty: not the key's."""
    signed.path("signature.sig").write_bytes(bytes(size))
    report = verify_release(signed.folder, public_of(signed))
    assert found(report) == {("signature.sig", "signed_by_other")}


def test_a_stripped_signature_is_found_without_a_key(signed: Release) -> None:
    """The list says that it was signed."""
    signed.path("signature.sig").unlink()
    assert found(verify_release(signed.folder)) == {("signature.sig", "unsigned")}


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"no key",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        X25519,
    ],
)
def test_a_key_that_is_none_is_a_bad_argument(signed: Release, pem: bytes) -> None:
    """It is told apart from a signature that does not fit."""
    with pytest.raises(InvalidInput):
        verify_release(signed.folder, pem)


# --- documents that fit their hash and say something else -----------------------------------------


def spoil_sbom_version(release: Release) -> None:
    """The SPDX of another version."""
    release.change("sbom.spdx.json", spdxVersion="SPDX-2.2")


def spoil_sbom_field(release: Release) -> None:
    """An SPDX without its namespace."""
    release.change("sbom.spdx.json", documentNamespace="")


def spoil_sbom_product(release: Release) -> None:
    """The SPDX of something else."""
    release.change("sbom.spdx.json", packages=[])


def spoil_sbom_edge(release: Release) -> None:
    """A relationship to nowhere."""
    edge = {"spdxElementId": "SPDXRef-DOCUMENT", "relatedSpdxElement": "SPDXRef-Nobody"}
    release.change("sbom.spdx.json", relationships=[edge])


def spoil_sbom_wheel(release: Release) -> None:
    """The SPDX of another wheel."""
    document = json.loads(release.path("sbom.spdx.json").read_bytes())
    document["packages"][0]["checksums"][0]["checksumValue"] = "0" * 64
    release.change("sbom.spdx.json", packages=document["packages"])


def spoil_statement_type(release: Release) -> None:
    """A statement of an older form."""
    release.change("slsa-attestation.json", _type="https://in-toto.io/Statement/v0.1")


def spoil_predicate_type(release: Release) -> None:
    """A statement about something else than how it was built."""
    release.change("slsa-attestation.json", predicateType="https://slsa.dev/provenance/v0.2")


def spoil_subject(release: Release) -> None:
    """A statement about other packages."""
    release.change("slsa-attestation.json", subject=[{"name": WHEEL, "digest": {"sha256": "0"}}])


def spoil_commit(release: Release) -> None:
    """A statement about another commit."""
    release.change("slsa-attestation.json", predicate={})


def spoil_json(release: Release) -> None:
    """A line that is no JSON."""
    release.path("focus-telemetry.json").write_bytes(b'{"a": 1}\n{"a":\n')


def spoil_lines(release: Release) -> None:
    """A number where an object belongs."""
    release.path("reliability-telemetry.json").write_bytes(b"1\n")


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (spoil_sbom_version, "sbom.spdx.json"),
        (spoil_sbom_field, "sbom.spdx.json"),
        (spoil_sbom_product, "sbom.spdx.json"),
        (spoil_sbom_edge, "sbom.spdx.json"),
        (spoil_sbom_wheel, "sbom.spdx.json"),
        (spoil_statement_type, "slsa-attestation.json"),
        (spoil_predicate_type, "slsa-attestation.json"),
        (spoil_subject, "slsa-attestation.json"),
        (spoil_commit, "slsa-attestation.json"),
        (spoil_json, "focus-telemetry.json"),
        (spoil_lines, "reliability-telemetry.json"),
    ],
)
def test_a_document_that_tells_of_something_else_is_found(
    release: Release, spoil: Callable[[Release], None], name: str
) -> None:
    """Listed anew, so that every hash fits: what it says still must be said of this release."""
    spoil(release)
    release.seal()
    assert found(verify_release(release.folder)) == {(name, "refused")}


# --- archives that attack their reader ------------------------------------------------------------


def zipped(*entries: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, body in entries:
            archive.writestr(name, body)
    return written.getvalue()


def texts(release: Release) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
    """Return the two entries of a good list."""
    with zipfile.ZipFile(release.path("manifest.zip")) as archive:
        first, second = [(name, archive.read(name)) for name in archive.namelist()]
    return first, second


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/cron.d/job", "sub/manifest.json", "..\\outside", "C:evil"]
)
def test_a_path_out_of_the_archive_is_refused(release: Release, name: str) -> None:
    """Names that lead elsewhere are told, and nothing is written anywhere."""
    before = sorted(release.folder.parent.rglob("*"))
    release.path("manifest.zip").write_bytes(zipped(*texts(release), (name, b"x")))
    report = verify_release(release.folder)
    assert found(report) == {("manifest.zip", "refused")}
    assert report.manifest is None
    assert sorted(release.folder.parent.rglob("*")) == before


def test_an_archive_that_unpacks_to_too_much_is_refused(release: Release) -> None:
    """A hundred megabytes of zeros in a hundred kilobytes: refused before it is unpacked."""
    data = zipped(("manifest.json", bytes(100_000_000)), texts(release)[1], method=8)
    assert len(data) < 200_000
    with pytest.raises(ManifestRefused, match="would unpack to 100,000,000 bytes"):
        read_manifest(data)


def test_an_archive_that_hides_its_size_is_refused(release: Release) -> None:
    """A size in the directory that is not the real one ends as damage, not as memory."""
    data = bytearray(zipped(("manifest.json", bytes(50_000_000)), texts(release)[1], method=8))
    entry = data.index(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = struct.pack("<I", 100)
    with pytest.raises(ManifestRefused):
        read_manifest(bytes(data))


def test_an_archive_beyond_the_limit_is_refused() -> None:
    """The file itself is read up to a limit only."""
    with pytest.raises(ManifestRefused, match="larger than"):
        read_manifest(bytes(BYTES_MAX + 1))


def test_an_entry_twice_is_refused(release: Release) -> None:
    """Two readers could take two different ones."""
    json_entry, sums = texts(release)
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = zipped(json_entry, json_entry, sums)
    with pytest.raises(ManifestRefused, match="each once"):
        read_manifest(data)


def test_sums_that_differ_from_the_list_are_refused(release: Release) -> None:
    """Both texts name the same files, or a reader of one is misled."""
    json_entry, (name, sums) = texts(release)
    data = zipped(json_entry, (name, sums.replace(WHEEL.encode(), b"other.whl")))
    with pytest.raises(ManifestRefused, match="different files"):
        read_manifest(data)


def spoiled_list(release: Release, **fields: object) -> bytes:
    """Return an archive whose list has other fields."""
    (name, text), sums = texts(release)
    return zipped((name, json.dumps({**json.loads(text), **fields}).encode()), sums)


@pytest.mark.parametrize(
    "fields",
    [
        {"files": {}},
        {"files": [{"name": "../../x", "size": 1, "sha256": "0" * 64}]},
        {"files": [{"name": "/x", "size": 1, "sha256": "0" * 64}]},
        {"files": [{"name": "manifest.zip", "size": 1, "sha256": "0" * 64}]},
        {"files": [{"name": "x", "size": -1, "sha256": "0" * 64}]},
        {"files": [{"name": "x", "size": True, "sha256": "0" * 64}]},
        {"files": [{"name": "x", "size": 1, "sha256": "0" * 63}]},
        {"files": [{"name": "x", "size": 1}]},
        {"files": [{"name": "x", "size": 1, "sha256": "0" * 64}] * 2},
        {"files": [{"name": f"f{n}", "size": 1, "sha256": "0" * 64} for n in range(1_001)]},
        {"version": ""},
        {"commit": None},
        {"signature": {"algorithm": "none"}},
        {"signature": {"algorithm": "ed25519"}},
        {"more": 1},
    ],
    ids=lambda fields: json.dumps(fields)[:40],
)
def test_a_list_in_another_form_is_refused(release: Release, fields: dict[str, object]) -> None:
    """Whatever stands in it, it is told in words and never raised as something else."""
    release.path("manifest.zip").write_bytes(spoiled_list(release, **fields))
    assert ("manifest.zip", "refused") in found(verify_release(release.folder))


@pytest.mark.parametrize("name", ["../../x", "/x", "a/b", "..", ".hidden", ""])
def test_a_listed_name_that_leads_out_is_refused(release: Release, name: str) -> None:
    """Told by its name, before any file of that name is looked for."""
    files = [{"name": name, "size": 1, "sha256": "0" * 64}]
    with pytest.raises(ManifestRefused, match="no name of a file of a release"):
        read_manifest(spoiled_list(release, files=files))


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04" + bytes(40), b"text"])
def test_what_is_no_archive_is_refused(release: Release, data: bytes) -> None:
    """Half a zip, or none."""
    release.path("manifest.zip").write_bytes(data)
    assert found(verify_release(release.folder)) == {("manifest.zip", "refused")}


def test_a_list_that_is_no_json_is_refused(release: Release) -> None:
    """As text, or as a list."""
    for text in (b"{", b"[]"):
        with pytest.raises(ManifestRefused):
            read_manifest(zipped(("manifest.json", text), texts(release)[1]))
