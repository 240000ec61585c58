"""Runs stac-api-validator on an API of this machine; prints its warnings and errors as JSON.

The tool fetches schemas from the network. Here they come from the folders given, under the same
addresses; anything else outside this machine is refused, and so counts as an error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from stac_api_validator.validations import QueryConfig, validate_api

CLASSES = [
    *("core", "collections", "features", "item-search"),
    *("item-search#sort", "item-search#fields"),
]
#: Schemas that no folder has; nothing of an item here leads to a rule of theirs.
ABSENT = (
    "https://schemas.stacspec.org/v1.0.0/item-spec/json-schema/basics.json",
    "https://proj.org/schemas/v0.7/projjson.schema.json",
)
ALIASES = {"commonjson": "common.json"}


def schemas_of(folders: list[str]) -> dict[str, bytes]:
    """Return schemas by their addresses."""
    found = dict.fromkeys(ABSENT, b'{"$schema": "http://json-schema.org/draft-07/schema#"}')
    for folder in folders:
        for path in Path(folder).rglob("*.json"):
            address = str(json.loads(path.read_bytes()).get("$id", "")).rstrip("#")
            for wrong, right in ALIASES.items():
                address = address.replace(wrong, right)
            found[address] = path.read_bytes()
    return found


def main() -> None:
    """Validate the API at the first argument, with the schemas of the folders behind it."""
    url, *folders = sys.argv[1:]
    schemas = schemas_of(folders)
    send = HTTPAdapter.send

    def sending(self: HTTPAdapter, request: Any, **options: Any) -> Any:
        if urlsplit(request.url).hostname == "127.0.0.1":
            return send(self, request, **options)
        address = request.url.rstrip("#")
        if address not in schemas:
            raise requests.ConnectionError(f"outside this machine: {address}")
        answer = requests.Response()
        answer.status_code, answer.url = 200, address
        answer._content = schemas[address]
        return answer

    HTTPAdapter.send = sending  # type: ignore[method-assign,assignment]
    polygon = [[[-103, 36], [-94, 36], [-94, 41], [-103, 41], [-103, 36]]]
    warnings, errors = validate_api(
        root_url=url,
        ccs_to_validate=CLASSES,
        collection="goes-glm",
        geometry=json.dumps({"type": "Polygon", "coordinates": polygon}),
        auth_bearer_token=None,
        auth_query_parameter=None,
        fields_nested_property="properties.kfm:dataset",
        validate_pagination=True,
        query_config=QueryConfig(*[None] * 13),
        transaction_collection=None,
        headers={},
        open_assets_urls=False,
    )
    print(json.dumps({"warnings": warnings.as_list(), "errors": errors.as_list()}))  # noqa: T201


if __name__ == "__main__":
    main()
