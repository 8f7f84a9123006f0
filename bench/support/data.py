"""Data sets in `$TOOLGATE_SHARED`."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("TOOLGATE_SHARED", ROOT.parent / "shared"))
BFCL, MASKBENCH = "bfcl.jsonl.gz", "maskbench.jsonl.gz"
TOOL_SCHEMAS = "tool-schemas.jsonl.gz"


def records(name: str) -> Iterator[Any]:
    """The records of a data set, in the order of the file."""
    with gzip.open(SHARED / "data" / name, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
