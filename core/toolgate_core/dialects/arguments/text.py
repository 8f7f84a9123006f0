"""Text of strings: JSON escapes, and ends that may be incomplete."""

from __future__ import annotations

import json


def escaped(text: str) -> str:
    """The text as it stands inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def overlap(text: str, end: str) -> int:
    """The length of the longest end of `text` that is a beginning of `end`, but not all of it."""
    longest = min(len(text), len(end) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(end[:n])), 0)
