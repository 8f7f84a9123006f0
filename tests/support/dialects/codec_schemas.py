"""Schemas of tools' parameters for tests of codecs with nested values, by name."""

import json
from pathlib import Path
from typing import Any

CODEC_SCHEMAS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
