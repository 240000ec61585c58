"""What makes two executions of a node the same: its id, its code, its inputs, its data.

    cache_key = sha256(f"{node_id}|{code_version}|{inputs_hash}|{data_version}")

A part that holds a bar is refused, so no two identities share a key. `data_version` is the declared
one, a plus sign, and a fingerprint of the pipeline and of the policies under which the node runs.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from tallgrass.canonical_json import sha256_hex
from tallgrass.errors import InvalidInput
from tallgrass.nodes.values import hash_of_identity

ID_CHARS_MAX: Final = 128
#: What every file system takes as one name.
_NAME_BYTES_MAX: Final = 240
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_KEPT: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_FIRST: Final = _KEPT - frozenset(b"._-")
#: Names of devices on Windows, whatever follows a dot.
_RESERVED: Final = re.compile(r"(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """The four parts of a node's execution; `key` is None where its code cannot be named."""

    node_id: str
    code_version: str | None
    inputs_hash: str
    data_version: str

    @property
    def key(self) -> str | None:
        """The content address of the result."""
        if self.code_version is None:
            return None
        return cache_key(self.node_id, self.code_version, self.inputs_hash, self.data_version)


def cache_key(node_id: str, code_version: str, inputs_hash: str, data_version: str) -> str:
    """Return the content address of an execution's result."""
    parts = {
        "node_id": node_id,
        "code_version": code_version,
        "inputs_hash": inputs_hash,
        "data_version": data_version,
    }
    for name, part in parts.items():
        if not part or "|" in part:
            raise InvalidInput(
                f"{name} {part!r} is empty or holds a bar", code="node_declaration_invalid"
            )
    try:
        return sha256_hex(f"{node_id}|{code_version}|{inputs_hash}|{data_version}".encode())
    except UnicodeEncodeError as exc:
        raise InvalidInput(
            "a part of the identity holds text that is no Unicode", code="node_declaration_invalid"
        ) from exc


def data_version_of(declared: str, fingerprints: Mapping[str, str]) -> str:
    """Return the declared version with a fingerprint of the policies, given by their names."""
    return f"{declared}+{_fingerprint_of(tuple(sorted(fingerprints.items())))}"


@lru_cache(maxsize=1024)
def _fingerprint_of(fingerprints: tuple[tuple[str, str], ...]) -> str:
    return hash_of_identity(dict(fingerprints))[:16]


def declared_inputs(inputs: Any, uses: Iterable[str] | None) -> Any:
    """Return the part of the state that a node declares it uses; all of it where it says nothing.

    The node is given this part and no other, so that what it reads is what was hashed. A key that
    is not there is left out: absent and None differ.
    """
    if uses is None:
        return inputs
    if not isinstance(inputs, Mapping):
        raise InvalidInput(
            f"`uses` names keys, and the state is a {type(inputs).__name__}, no mapping",
            code="node_declaration_invalid",
        )
    return {name: inputs[name] for name in uses if name in inputs}


# --- ids as names of files ------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def file_name_of(given: str) -> str:
    """Return the folder's name of a run, node or task id: itself where it is plain, else encoded.

    The encoding is reversible and never begins with a dot, so an id leads neither out of its folder
    nor to a file of the store's own.
    """
    if not isinstance(given, str):
        raise InvalidInput(f"an id is a text, not {given!r}", code="node_id_invalid")
    if _PLAIN_ID.fullmatch(given) and not _RESERVED.fullmatch(given) and not given.endswith("."):
        return given
    if not given or len(given) > ID_CHARS_MAX:
        raise InvalidInput(
            f"an id of {len(given)} characters; 1 to {ID_CHARS_MAX} are allowed",
            code="node_id_invalid",
        )
    try:
        raw = given.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput("an id that is no Unicode", code="node_id_invalid") from exc
    forced = {0} if raw[0] not in _FIRST or _RESERVED.fullmatch(given) else set()
    if given.endswith("."):
        forced.add(len(raw) - 1)
    name = "".join(
        chr(byte) if byte in _KEPT and place not in forced else f"%{byte:02X}"
        for place, byte in enumerate(raw)
    )
    if len(name) > _NAME_BYTES_MAX:
        raise InvalidInput(
            f"an id that takes {len(name)} bytes as the name of a folder; {_NAME_BYTES_MAX} fit",
            code="node_id_invalid",
        )
    return name


def id_of_file_name(name: str) -> str:
    """Return the id of a folder's name; a name that `file_name_of` never gives is refused."""
    try:
        given = unquote_to_bytes(name).decode()
        if file_name_of(given) == name:
            return given
    except UnicodeDecodeError:
        pass
    raise InvalidInput(f"{name!r} is no name of a run, node or task", code="node_id_invalid")
