"""Just enough of curl for the pages, where it is not installed: headers, a body, one address."""

from __future__ import annotations

import argparse
import sys

import httpx


def main(arguments: list[str]) -> int:
    """Ask once and print the answer's body; as with curl, a refusal is an answer too."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="body")
    parser.add_argument("url")
    asked = parser.parse_args(arguments)
    pairs = (each.partition(":") for each in asked.headers)
    headers = {name: value.strip() for name, _, value in pairs}
    answer = httpx.request(
        "GET" if asked.body is None else "POST", asked.url, headers=headers, content=asked.body,
        timeout=60,
    )  # fmt: skip
    sys.stdout.write(answer.text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
