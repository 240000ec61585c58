"""``sbom.spdx.json``: what a release is made of and needs, as SPDX 2.3 (pure)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tallgrass.canonical_json import sha256_hex
from tallgrass.release.manifest import ReleaseFile

SBOM: Final = "sbom.spdx.json"

_DOCUMENT_ID = "SPDXRef-DOCUMENT"
_NOT_SAID = "NOASSERTION"
_REQUIRED = ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A package at its exact version."""

    name: str
    version: str
    #: An SPDX expression, where the package declares one.
    licence: str | None
    #: Names of the components that it needs.
    requires: tuple[str, ...]

    @property
    def purl(self) -> str:
        """The package as a package URL."""
        return f"pkg:pypi/{self.name}@{self.version.replace('+', '%2B')}"


def sbom(
    product: Component, components: Sequence[Component], *, wheel: ReleaseFile, made_at: datetime
) -> dict[str, Any]:
    """Return the document: the product, what it needs, and who needs what."""
    listed = sorted(components, key=lambda each: each.name)
    packages = [
        {
            **_package(product),
            "packageFileName": wheel.name,
            "checksums": [{"algorithm": "SHA256", "checksumValue": wheel.sha256}],
            "primaryPackagePurpose": "APPLICATION",
        },
        *(_package(each) for each in listed),
    ]
    relationships = [
        {
            "spdxElementId": _DOCUMENT_ID,
            "relationshipType": "DESCRIBES",
            "relatedSpdxElement": _id(product.name),
        },
        *(edge for each in (product, *listed) for edge in _needs(each)),
    ]
    title = f"{product.name}-{product.version}"
    # As SPDX wants it: an address of its own for each document, at which nothing need be.
    unique = sha256_hex(repr((packages, relationships)).encode())[:32]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": _DOCUMENT_ID,
        "name": title,
        "documentNamespace": f"https://spdx.org/spdxdocs/{title}-{unique}",
        "creationInfo": {
            "created": made_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": [f"Tool: {title}"],
        },
        "packages": packages,
        "relationships": relationships,
    }


def sbom_faults(document: object, *, product: str, version: str) -> Iterator[str]:
    """Say what keeps a document from being the SPDX of that product."""
    if not isinstance(document, dict) or not all(document.get(name) for name in _REQUIRED):
        yield f"SPDX 2.3 asks for {', '.join(_REQUIRED)}"
        return
    if document["spdxVersion"] != "SPDX-2.3" or document["dataLicense"] != "CC0-1.0":
        yield "must be SPDX-2.3 under CC0-1.0"
    packages = document.get("packages")
    if not isinstance(packages, list) or not all(map(_is_package, packages)):
        yield "each package has SPDXID, name, versionInfo and downloadLocation"
        return
    if not any((each["name"], each["versionInfo"]) == (product, version) for each in packages):
        yield f"does not tell of {product} {version}"
    known = {_DOCUMENT_ID, *(each["SPDXID"] for each in packages)}
    for edge in document.get("relationships") or ():
        ends = (edge.get("spdxElementId"), edge.get("relatedSpdxElement"))
        if not set(ends) <= known:
            yield f"a relationship names an element that is not there: {ends}"


def wheel_checksums(document: dict[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of each file that a package of the document is said to be."""
    return {
        each["packageFileName"]: checksum["checksumValue"]
        for each in document["packages"]
        if "packageFileName" in each
        for checksum in each.get("checksums", ())
        if checksum.get("algorithm") == "SHA256"
    }


def _package(component: Component) -> dict[str, Any]:
    return {
        "SPDXID": _id(component.name),
        "name": component.name,
        "versionInfo": component.version,
        "downloadLocation": _NOT_SAID,
        "filesAnalyzed": False,
        "licenseConcluded": _NOT_SAID,
        "licenseDeclared": component.licence or _NOT_SAID,
        "copyrightText": _NOT_SAID,
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": component.purl,
            }
        ],
    }


def _needs(component: Component) -> Iterator[dict[str, str]]:
    for name in sorted(component.requires):
        yield {
            "spdxElementId": _id(component.name),
            "relationshipType": "DEPENDS_ON",
            "relatedSpdxElement": _id(name),
        }


def _id(name: str) -> str:
    """Return a package's id: letters, digits, dots and dashes are all that SPDX allows."""
    return f"SPDXRef-Package-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}"


def _is_package(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(name), str)
        for name in ("SPDXID", "name", "versionInfo", "downloadLocation")
    )
