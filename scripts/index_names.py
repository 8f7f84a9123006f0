"""Check that the names of our distributions are free at the package index, or ours.

    python scripts/index_names.py --owner NAME [--index URL]

`--owner` is the user or the organization that owns our projects at the index; it can be repeated.
The exit status is 1 if a name belongs to others, or if the index does not respond. Only the index's
JSON API states owners, so `--index` must have one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Collection, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from dist import PROJECTS

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org"
TIMEOUT = 30


def names() -> list[str]:
    projects = (ROOT / folder / "pyproject.toml" for folder in PROJECTS)
    return [tomllib.loads(path.read_text())["project"]["name"] for path in projects]


def owners(index: str, name: str) -> set[str] | None:
    """Return the users and the organization that own a project, or None if there is none."""
    try:
        with urlopen(f"{index}/pypi/{name}/json", timeout=TIMEOUT) as response:
            project: dict[str, Any] = json.load(response)
    except HTTPError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            return None
        raise
    ownership = project.get("ownership") or {}
    roles = ownership.get("roles") or ()
    found = {each["user"] for each in roles if each["role"] == "Owner"}
    return found | {ownership.get("organization")} - {None}


def problems(index: str, ours: Collection[str]) -> Iterator[str]:
    for name in names():
        found = owners(index, name)
        if found is None:
            print(f"{name}: free")
        elif found & set(ours):
            print(f"{name}: ours")
        else:
            whose = ", ".join(sorted(found)) or "unknown owners"
            yield (
                f"{name} belongs to {whose} at {index}. Do not release under this name: "
                "rename the distribution in its pyproject.toml."
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--owner", action="append", required=True)
    parser.add_argument("--index", default=INDEX)
    chosen = parser.parse_args()
    try:
        found = list(problems(chosen.index.rstrip("/"), chosen.owner))
    except (OSError, ValueError) as error:
        found = [f"{chosen.index} can't be asked for our names ({error}). Run this again."]
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
