"""Data sets that are not part of this repository. Tests that need them are skipped without them."""

from __future__ import annotations

import os
from pathlib import Path

from tests.models import ROOT

DATA = Path(os.environ.get("TOOLGATE_SHARED", ROOT.parent / "shared")) / "data"
TEMPLATES = DATA / "templates"
"""Directory of chat templates of real models."""
