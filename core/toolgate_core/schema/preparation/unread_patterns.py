"""Why a pattern can't be read."""

from __future__ import annotations

import json

from ...errors.base import shortened
from ..regular.reading import parse
from ..regular.syntax import Look, Unsupported, every_part

MAX_SHOWN = 100
"""Maximum length of a pattern in a message, in characters."""


def problem_of(pattern: str) -> str:
    """Why the validator does not read a pattern."""
    said = f'{json.dumps(shortened(pattern, MAX_SHOWN), ensure_ascii=False)} is not a "regex"'
    try:
        part = parse(pattern)
    except (Unsupported, RecursionError) as unsupported:
        return f"{said}: {unsupported}"
    if any(isinstance(each, Look) and each.behind for each in every_part(part)):
        return (
            f"{said} that can be checked: its look-behind has no fixed length, and an assertion or "
            "a back-reference inside"
        )
    return said
