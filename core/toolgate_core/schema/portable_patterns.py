"""The patterns of a schema in the syntax that all their readers share.

They are translated once, so that masks, the validator and proofs about schemas mean the same
strings.
"""

from __future__ import annotations

from typing import Any

from .regular.text import is_portable, portable


def translate_patterns(node: dict[str, Any]) -> int:
    """Translate the patterns of one schema, without those inside it, in place. Returns the number
    of characters that had to be translated."""
    given, named = node.get("pattern"), node.get("patternProperties")
    count = 0
    if isinstance(given, str):
        count += _length(given)
        node["pattern"] = portable(given)
    if isinstance(named, dict):
        count += sum(map(_length, named))
        made = {portable(pattern): schema for pattern, schema in named.items()}
        if len(made) == len(named):  # otherwise, two would become the same one
            node["patternProperties"] = made
    return count


def _length(pattern: str) -> int:
    return 0 if is_portable(pattern) else len(pattern)
