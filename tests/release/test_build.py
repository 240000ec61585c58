"""`python -m tools.release`: a release of the commit, the same from any folder."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.release.verify import verify_release
from tests.cli.command import environment
from tests.release.folder import KeyPair, new_key
from tools.conformance_list import ROOT

if TYPE_CHECKING:
    from pathlib import Path

NAME = re.compile(r"name = \"tallgrass\"\nversion = \"([^\"]+)\"")
VERSION = NAME.findall((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[0]
PARTS = ("src", "examples", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "Makefile")
WHEEL, SDIST = f"tallgrass-{VERSION}-py3-none-any.whl", f"tallgrass-{VERSION}.tar.gz"
FILES = {
    WHEEL, SDIST, "sbom.spdx.json", "slsa-attestation.json", "manifest.zip", "signature.sig",
    "nodd-sns-telemetry.json", "focus-telemetry.json", "reliability-telemetry.json",
}  # fmt: skip


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody, at a time that is known by heart."""
    when = "2026-11-16T12:00:00+00:00"
    known = {"NAME": "A", "EMAIL": "a@example.org", "DATE": when}
    roles = ("AUTHOR", "COMMITTER")
    who = {f"GIT_{role}_{what}": value for role in roles for what, value in known.items()}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        env=environment(**who), check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def release(root: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the tool on a checkout."""
    return subprocess.run(
        [sys.executable, "-m", "tools.release", "--root", str(root), "--out", str(out),
         "--units", "40", *options],
        cwd=ROOT, env=environment(), check=False, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of one commit, with a file that is not in it."""
    folder = tmp_path_factory.mktemp("one") / "checkout"
    folder.mkdir()
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / part)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "All of it")
    (folder / "src" / "tallgrass" / "secret.py").write_text("KEY = 'not committed'\n")
    return folder


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[KeyPair, Path]:
    """A key, and the file of its private half."""
    pair = new_key()
    path = tmp_path_factory.mktemp("key") / "private.pem"
    path.write_bytes(pair.private)
    return pair, path


@pytest.fixture(scope="module")
def made(
    checkout: Path, key: tuple[KeyPair, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The release of that commit, signed."""
    out = tmp_path_factory.mktemp("releases")
    done = release(checkout, out, "--key", str(key[1]))
    assert done.returncode == 0, done.stderr
    assert f"{out / f'v{VERSION}'} is signed." in done.stdout
    assert "not committed are not in it" in done.stdout
    return out / f"v{VERSION}"


def read(path: Path) -> Any:
    """Return a JSON document."""
    return json.loads(path.read_bytes())


@pytest.mark.slow
def test_the_release_is_whole_and_signed(made: Path, key: tuple[KeyPair, Path]) -> None:
    """Every part is there, and it verifies with the public half of the key."""
    assert {path.name for path in made.iterdir()} == FILES
    report = verify_release(made, key[0].public)
    assert (report.findings, report.signature.value) == ((), "valid")


@pytest.mark.slow
def test_the_packages_hold_the_commit_and_nothing_else(made: Path, checkout: Path) -> None:
    """Each committed module is in the wheel with its bytes; what is not committed is nowhere."""
    committed = git(checkout, "ls-files", "src/tallgrass").splitlines()
    with zipfile.ZipFile(made / WHEEL) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" not in name]
        assert sorted(names) == sorted(name.removeprefix("src/") for name in committed)
        for name in ("tallgrass/worker.py", "tallgrass/storage/migrations/SHA256SUMS"):
            assert wheel.read(name) == (checkout / "src" / name).read_bytes()
    with tarfile.open(made / SDIST) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "constraints.txt", "src/tallgrass/worker.py"} <= inside
    assert "src/tallgrass/secret.py" not in inside


@pytest.mark.slow
def test_the_same_commit_gives_the_same_packages(
    made: Path, checkout: Path, tmp_path: Path
) -> None:
    """From a clone elsewhere, later: wheel, source distribution and SPDX are the same bytes."""
    git(tmp_path, "clone", "--quiet", str(checkout), "clone")
    done = release(tmp_path / "clone", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "UNSIGNED" in done.stdout
    again = tmp_path / "out" / f"v{VERSION}"
    assert {path.name for path in again.iterdir()} == FILES - {"signature.sig"}
    for name in (WHEEL, SDIST, "sbom.spdx.json"):
        assert (again / name).read_bytes() == (made / name).read_bytes(), name


@pytest.mark.slow
def test_the_sbom_has_what_spdx_asks_for(made: Path) -> None:
    """SPDX 2.3's required fields, and each pinned package of every extra that is shipped."""
    document = read(made / "sbom.spdx.json")
    assert (document["spdxVersion"], document["dataLicense"]) == ("SPDX-2.3", "CC0-1.0")
    assert (document["SPDXID"], document["name"]) == ("SPDXRef-DOCUMENT", f"tallgrass-{VERSION}")
    assert re.fullmatch(r"https://[^#\s]+", document["documentNamespace"])
    assert document["creationInfo"]["created"] == "2026-11-16T12:00:00Z"
    assert re.fullmatch(r"Tool: \S+", document["creationInfo"]["creators"][0])
    for package in document["packages"]:
        assert {"SPDXID", "name", "downloadLocation"} <= set(package)
        assert re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", package["SPDXID"])
        assert package["filesAnalyzed"] is False
    for edge in document["relationships"]:
        assert set(edge) == {"spdxElementId", "relationshipType", "relatedSpdxElement"}
        assert edge["relationshipType"] in {"DESCRIBES", "DEPENDS_ON"}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {name: version for name, _, version in (line.partition("==") for line in lines)}
    found = {each["name"]: each["versionInfo"] for each in document["packages"]}
    assert found.pop("tallgrass") == VERSION
    assert found.items() <= pins.items()
    # One of each kind: of the core, of an extra, of an extra's extra, of what those need.
    assert {"click", "boto3", "psycopg-binary", "botocore", "langgraph", "starlette"} <= set(found)
    assert not {"pytest", "ruff", "mypy", "hypothesis"} & set(found)


@pytest.mark.slow
def test_the_statement_tells_how_it_was_built(made: Path, checkout: Path) -> None:
    """An in-toto statement with SLSA's provenance: the packages, the commit, the builder."""
    statement = read(made / "slsa-attestation.json")
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert {each["name"] for each in statement["subject"]} == {WHEEL, SDIST}
    definition = statement["predicate"]["buildDefinition"]
    assert {"buildType", "externalParameters", "resolvedDependencies"} <= set(definition)
    source = definition["resolvedDependencies"][0]
    assert source["digest"] == {"gitCommit": git(checkout, "rev-parse", "HEAD")}
    assert definition["internalParameters"]["sourceDateEpoch"] == 1_794_830_400
    assert statement["predicate"]["runDetails"]["builder"]["id"] == "urn:tallgrass:builder:checkout"


@pytest.mark.slow
def test_the_telemetry_is_of_a_real_run(made: Path) -> None:
    """Units were ingested, events delivered and a node run, by the version that is released."""
    ingest = read(made / "nodd-sns-telemetry.json")
    assert ingest["release"] == f"v{VERSION}"
    assert ingest["metrics"]
    energy, carbon = ingest["energy"], ingest["carbon"]
    assert (energy["estimated"], carbon["estimated"]) == (True, True)
    assert energy["attempts"] == carbon["attempts"] > 0
    assert min(energy["wh_per_attempt"], energy["kwh_per_gb"], carbon["gco2e_per_gb"]) > 0
    for name in ("focus-telemetry.json", "reliability-telemetry.json"):
        lines = (made / name).read_text(encoding="utf-8").splitlines()
        assert lines
        assert all(isinstance(json.loads(line), dict) for line in lines)


def test_what_is_no_release_is_not_replaced(checkout: Path, tmp_path: Path) -> None:
    """A folder of that name with something else in it stays as it was."""
    there = tmp_path / f"v{VERSION}"
    there.mkdir()
    (there / "notes.txt").write_text("mine")
    done = release(checkout, tmp_path)
    assert done.returncode == 1
    assert "is there already" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in there.iterdir()] == ["notes.txt"]
