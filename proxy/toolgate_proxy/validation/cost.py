"""Upper bound of the cost of a validation, computed from the schema alone.

A validation visits a value once for each path from the root of the schema to a subschema that
applies to the value. References multiply the paths (twenty definitions that each refer twice to the
next one make a million), or make them infinite. A pattern with lookaround can backtrack. A pattern
with nested repetition counts is expensive to compile.
"""

from __future__ import annotations

import re
from typing import Any

from toolgate_core.schema.regular.characters import LINE_END, SPACE, other_than, written
from toolgate_core.schema.walk import at_pointer, pointer_of_ref

UNBOUNDED = 10**12
"""Larger than any limit."""

_LOOKAROUND = re.compile(r"\(\?(?!:|[ims]+[:)])|\\[1-9k]")
"""Also matches back references. Flags such as `(?s)` are no lookaround."""
_COUNT = re.compile(r"\{(\d*),?(\d*)\}")
MAX_PATTERN = 1_000
"""Maximum length of a pattern multiplied by its repetition counts."""
_SHORT = tuple(map(written, (other_than(LINE_END), SPACE, other_than(SPACE))))
r"""What `.`, `\s` and `\S` are in canonical schemas. They count as one character each."""
MAX_COUNT = 20
"""Maximum length of a repetition count. Python does not read numbers of any length."""

_UNSUPPORTED_REFERENCES = frozenset({"$dynamicRef", "$recursiveRef", "$id", "id"})
"""References that are not followed here, and keywords that change the root of JSON Pointers when
they are in a subschema."""


def steps(schema: dict[str, Any]) -> int:
    """Return the number of paths from the root to its subschemas, weighted by size. UNBOUNDED for a
    cycle, a reference that is not a JSON Pointer, a chain of references that exceeds Python's
    stack, and a pattern with lookaround."""
    without_id = {name: value for name, value in schema.items() if name not in ("$id", "id")}
    try:
        return _Walk(schema).weight(without_id, "")
    except RecursionError:
        return UNBOUNDED


class _Walk:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._weights: dict[str, int | None] = {}
        """Weights by reference. None while a weight is computed, which means a cycle if it is read
        then."""

    def weight(self, value: Any, keyword: str) -> int:
        """Weigh a subschema recursively. The depth of a schema is limited
        (core/toolgate_core/schema/limits.py), and each reference is followed once, but long chains
        of references can exceed the stack."""
        if isinstance(value, list):
            return sum((self.weight(child, "") for child in value), 1)
        if isinstance(value, str):
            return self._text(value, keyword)
        if not isinstance(value, dict):
            return 1
        total = 1
        for name, child in value.items():
            if name == "patternProperties" and isinstance(child, dict):
                total += sum(_pattern(each) for each in child)
            if name in ("$defs", "definitions"):
                continue  # definitions are counted where they are referenced
            total += self.weight(child, name)
        return min(total, UNBOUNDED)

    def _text(self, value: str, keyword: str) -> int:
        if keyword in _UNSUPPORTED_REFERENCES:
            return UNBOUNDED
        if keyword == "pattern":
            return _pattern(value)
        return self._reference(value) if keyword == "$ref" else 1

    def _reference(self, reference: str) -> int:
        if reference not in self._weights:
            target = self._target(reference)
            self._weights[reference] = None
            self._weights[reference] = UNBOUNDED if target is None else self.weight(target, "")
        weight = self._weights[reference]
        return UNBOUNDED if weight is None else weight

    def _target(self, reference: str) -> Any:
        pointer = pointer_of_ref(reference)
        if pointer is None:
            return None
        try:
            return at_pointer(self._root, pointer)
        except (LookupError, ValueError):
            return None


def _pattern(pattern: str) -> int:
    if _LOOKAROUND.search(pattern):
        return UNBOUNDED
    for each in _SHORT:
        pattern = pattern.replace(each, ".")
    size = len(pattern)
    for count in _COUNT.finditer(pattern):
        if size > MAX_PATTERN or len(count.group()) > MAX_COUNT:
            return UNBOUNDED
        size *= max(int(count[1] or 0), int(count[2] or 0), 1)
    return size if size <= MAX_PATTERN else UNBOUNDED
