"""Data sets that are not part of this repository. Tests that need them are skipped without them."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.models import ROOT

SHARED = Path(os.environ.get("TOOLGATE_SHARED", ROOT.parent / "shared"))
DATA = SHARED / "data"
TEMPLATES = DATA / "templates"
"""Directory of chat templates of real models."""
BFCL, MASKBENCH = "bfcl.jsonl.gz", "maskbench.jsonl.gz"


def records(name: str) -> Iterator[Any]:
    """Read the records of a data set, in the order of the file."""
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
