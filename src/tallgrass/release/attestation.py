"""``slsa-attestation.json``: how a release was built, as an in-toto statement (pure)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tallgrass.clock import format_instant
from tallgrass.release.manifest import Manifest, ReleaseFile
from tallgrass.release.sbom import Component

ATTESTATION: Final = "slsa-attestation.json"

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "urn:tallgrass:build:make-release:v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What is known of one build."""

    version: str
    commit: str
    #: The time of the commit, in seconds since 1970: what the packages' files are dated by.
    source_date_epoch: int
    python: str
    #: What made the packages.
    backend: Component
    #: Who ran it: an address, such as that of a build service.
    builder: str
    started_at: datetime
    finished_at: datetime


def attestation(
    build: Build, packages: Sequence[ReleaseFile], components: Sequence[Component]
) -> dict[str, Any]:
    """Return the statement: these files came of this commit, by this build."""
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": each.name, "digest": {"sha256": each.sha256}} for each in sorted(packages)
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"version": build.version, "commit": build.commit},
                "internalParameters": {
                    "sourceDateEpoch": build.source_date_epoch,
                    "python": build.python,
                },
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": build.commit}},
                    {"name": "build-backend", "uri": build.backend.purl},
                    *({"uri": each.purl} for each in sorted(components, key=lambda c: c.name)),
                ],
            },
            "runDetails": {
                "builder": {"id": build.builder},
                "metadata": {
                    "startedOn": format_instant(build.started_at),
                    "finishedOn": format_instant(build.finished_at),
                },
            },
        },
    }


def attestation_faults(document: object, manifest: Manifest) -> Iterator[str]:
    """Say what keeps a statement from being the one of this release."""
    if not isinstance(document, dict) or document.get("_type") != STATEMENT:
        yield f"must be a statement of the type {STATEMENT}"
        return
    if document.get("predicateType") != PREDICATE:
        yield f"must carry the predicate {PREDICATE}"
        return
    if _subjects(document) != {each.name: each.sha256 for each in manifest.packages()}:
        yield "its subjects are not the packages of this release"
    if _commit(document) != manifest.commit:
        yield f"it does not tell of the commit {manifest.commit}"


def _subjects(document: dict[str, Any]) -> dict[str, str] | None:
    try:
        return {each["name"]: each["digest"]["sha256"] for each in document["subject"]}
    except (KeyError, TypeError):
        return None


def _commit(document: dict[str, Any]) -> str | None:
    try:
        found = document["predicate"]["buildDefinition"]["resolvedDependencies"]
        commits: list[str] = [
            each["digest"]["gitCommit"] for each in found if each.get("name") == "source"
        ]
    except (AttributeError, KeyError, TypeError):
        return None
    return commits[0] if len(commits) == 1 else None
