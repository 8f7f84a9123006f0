"""Data sets that are not part of this repository: in $TOOLGATE_SHARED, or fetched from packages."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.models import ROOT

SHARED = Path(os.environ.get("TOOLGATE_SHARED", ROOT.parent / "shared"))
CACHE = ROOT / ".cache" / "data"
"""Where scripts/public_data.py puts what it fetches."""
DATA = SHARED / "data"
TEMPLATES = DATA / "templates"
"""Directory of chat templates of real models."""
BFCL, MASKBENCH = "bfcl.jsonl.gz", "maskbench.jsonl.gz"
SUITE, TOOLS = "json-schema-test-suite.tar.gz", "tool-schemas.jsonl.gz"


def path_of(name: str) -> Path:
    """Where the data set is, or would be in $TOOLGATE_SHARED."""
    fetched = CACHE / name
    return fetched if fetched.exists() and not (DATA / name).exists() else DATA / name


def records(name: str) -> Iterator[Any]:
    """Read the records of a data set, in the order of the file."""
    with gzip.open(path_of(name), "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
