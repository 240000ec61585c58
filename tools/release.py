"""Build a release of the commit that is checked out: `make release`.

    python -m tools.release                    releases/v<version>/
    python -m tools.release --key private.pem  the same, signed

The packages are built from the commit's own files, not from the folder: nothing that is not
committed gets in, and the same commit gives the same packages on any machine. The telemetry is that
of a demo that this version plays, of the delivery of its events, and of an example's node.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from tallgrass.cli.whole_files import appearing_folder
from tallgrass.errors import TallgrassError
from tallgrass.release.attestation import ATTESTATION, Build, attestation
from tallgrass.release.manifest import MANIFEST, SIGNATURE, Manifest, manifest_bytes
from tallgrass.release.sbom import SBOM, sbom
from tallgrass.release.signature import key_id, sign
from tallgrass.release.verify import digest_of, verify_release
from tools.conformance_list import ROOT
from tools.release_components import NotPinned, closure, component, pinned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: A build on somebody's own machine: nothing vouches for it but its key.
LOCAL_BUILDER = "urn:tallgrass:builder:checkout"


class ReleaseFailed(RuntimeError):
    """The release could not be built; the message says at which step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The commit, as it lies in a folder of its own."""

    folder: Path
    commit: str
    epoch: int
    version: str


def main(arguments: list[str] | None = None) -> int:
    """Build, check and tell."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    parser.add_argument("--out", type=Path, help="the folder of all releases (ROOT/releases)")
    parser.add_argument("--key", type=Path, help="private key (Ed25519, PEM) that signs the list")
    parser.add_argument("--builder", default=LOCAL_BUILDER, help="the address of who builds")
    parser.add_argument("--units", type=int, default=300, help="units of the demo")
    given = parser.parse_args(arguments)
    key = None if given.key is None else given.key.read_bytes()
    try:
        folder = build(
            given.root, given.out or given.root / "releases", key, given.builder, given.units
        )
    except (NotPinned, ReleaseFailed, TallgrassError, subprocess.CalledProcessError) as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    _tell(folder, given.root, signed=key is not None)
    return 0


def build(root: Path, out: Path, key: bytes | None, builder: str, units: int) -> Path:
    """Write the release's folder, whole or not at all; one of the same version is replaced."""
    started_at = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="tallgrass-release-") as scratch:
        source = _exported(root, Path(scratch) / "source")
        target = out / f"v{source.version}"
        with appearing_folder(target, replace=lambda old: (old / MANIFEST).is_file()) as folder:
            _packages(source, folder)
            _documents(source, folder, builder, started_at)
            _telemetry(source, folder, Path(scratch), units)
            _sealed(source, folder, key)
    return target


# --- the packages ---------------------------------------------------------------------------------


def _exported(root: Path, folder: Path) -> Source:
    """Lay out the commit's files: what is ignored or not committed is not among them."""
    commit = _git(root, "rev-parse", "HEAD").decode().strip()
    epoch = int(_git(root, "show", "--no-patch", "--format=%ct", commit))
    with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", commit))) as archive:
        archive.extractall(folder, filter="data")
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return Source(folder=folder, commit=commit, epoch=epoch, version=project["version"])


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(root), *arguments],  # noqa: S607 - the git of whoever builds
        check=True,
        stdout=subprocess.PIPE,
    ).stdout


def _packages(source: Source, folder: Path) -> None:
    """Build wheel and source distribution, dated by the commit."""
    _run(
        [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-t",
            "sdist",
            "-t",
            "wheel",
            "-d",
            str(folder),
        ],
        source.folder,
        {**os.environ, "SOURCE_DATE_EPOCH": str(source.epoch)},
    )


# --- what is said of them -------------------------------------------------------------------------


def _documents(source: Source, folder: Path, builder: str, started_at: datetime) -> None:
    """Write what the release is made of, and how it was built."""
    pins = pinned(source.folder / "constraints.txt")
    project = tomllib.loads((source.folder / "pyproject.toml").read_text("utf-8"))["project"]
    product, components = closure(project, pins)
    packages = [digest_of(path) for path in sorted(folder.iterdir())]
    wheel = next(each for each in packages if each.name.endswith(".whl"))
    dated = datetime.fromtimestamp(source.epoch, UTC)
    _write(folder / SBOM, sbom(product, components, wheel=wheel, made_at=dated))
    how = Build(
        version=source.version,
        commit=source.commit,
        source_date_epoch=source.epoch,
        python=platform.python_version(),
        backend=component("hatchling", pins, needs=()),
        builder=builder,
        started_at=started_at,
        finished_at=datetime.now(UTC),
    )
    _write(folder / ATTESTATION, attestation(how, packages, components))


def _telemetry(source: Source, folder: Path, scratch: Path, units: int) -> None:
    """Let this version ingest, deliver and run a node, and export how it went."""
    demo, release = scratch / "demo", f"v{source.version}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TALLGRASS_")}
    environment = {**kept, "PYTHONPATH": str(source.folder / "src")}
    tallgrass = [sys.executable, "-m", "tallgrass"]
    configured = [*tallgrass, "--config", str(demo / "tallgrass.toml")]
    node = source.folder / "examples" / "example_node.py"
    for command in (
        [*tallgrass, "demo", "--units", str(units), "--dir", str(demo)],
        [*configured, "outbox", "dispatch", "--drain"],
        [sys.executable, str(node), str(demo / "nodes")],
        [*configured, "telemetry", "export", "--dir", str(scratch), "--release", release,
         "--nodes-dir", str(demo / "nodes")],
    ):  # fmt: skip
        _run(command, scratch, environment)
    for path in (scratch / "releases" / release).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Run a step; what it says is of interest only if it fails."""
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise ReleaseFailed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")


def _write(path: Path, document: object) -> None:
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


# --- list and signature ---------------------------------------------------------------------------


def _sealed(source: Source, folder: Path, key: bytes | None) -> None:
    """List every file, sign the list where there is a key, and check the whole."""
    listed = manifest_bytes(
        Manifest(
            version=source.version,
            commit=source.commit,
            key_id=None if key is None else key_id(key),
            files=tuple(digest_of(path) for path in sorted(folder.iterdir())),
        )
    )
    (folder / MANIFEST).write_bytes(listed)
    if key is not None:
        (folder / SIGNATURE).write_bytes(sign(listed, key))
    for path in folder.iterdir():
        path.chmod(0o644)
    report = verify_release(folder)
    if not report.holds:
        found = "; ".join(f"{each.file}: {each.message}" for each in report.findings)
        raise ReleaseFailed(f"what was built does not verify: {found}")


def _tell(folder: Path, root: Path, *, signed: bool) -> None:
    for path in sorted(folder.iterdir()):
        print(f"  {path.stat().st_size:>10,}  {path.name}")
    print(f"{folder} is {'signed' if signed else 'UNSIGNED: give a key with --key'}.")
    if _git(root, "status", "--porcelain"):
        print("Changes that are not committed are not in it.")


if __name__ == "__main__":
    sys.exit(main())
