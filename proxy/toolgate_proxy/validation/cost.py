"""How many steps checking a value against a schema can take, told from the schema alone.

A check visits a value once for every way in which the schema's root leads to a subschema that
applies to it. References make those ways many (twenty lines that refer to each other in pairs are
a million) or endless; a pattern that looks around may backtrack; one with counts in counts is dear
to compile.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

UNBOUNDED = 10**12
"""More than any budget."""

_LOOKS_AROUND = re.compile(r"\(\?(?!:)|\\[1-9k]")
_COUNT = re.compile(r"\{(\d*),?(\d*)\}")
MAX_PATTERN = 1_000
"""Characters times its counts: what a pattern may come to."""

_BEYOND_POINTERS = frozenset({"$dynamicRef", "$recursiveRef", "$id", "id"})
"""References that are not followed here, and what moves the root that a JSON Pointer starts from:
anywhere but at that root."""


def steps(schema: dict[str, Any]) -> int:
    """Ways from the root to its subschemas, each weighed by its own size. UNBOUNDED where there is
    a cycle, a reference by anything but a JSON Pointer, a chain of references that Python's stack
    does not hold, or a pattern that is not plain."""
    named = {name: value for name, value in schema.items() if name not in ("$id", "id")}
    try:
        return _Walk(schema).weight(named, "")
    except RecursionError:
        return UNBOUNDED


class _Walk:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._weights: dict[str, int | None] = {}
        """By reference; None while its weight is being found: whoever meets that is in a cycle."""

    def weight(self, value: Any, keyword: str) -> int:
        """Recursive: the depth of a schema is limited before this sees it (core/limits.py), and
        each reference is followed once, which long chains of them take beyond any stack."""
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
                continue  # what is referred to counts where it is referred to
            total += self.weight(child, name)
        return min(total, UNBOUNDED)

    def _text(self, value: str, keyword: str) -> int:
        if keyword in _BEYOND_POINTERS:
            return UNBOUNDED
        if keyword == "pattern":
            return _pattern(value)
        return self._reference(value) if keyword == "$ref" else 1

    def _reference(self, reference: str) -> int:
        if reference not in self._weights:
            target = self._target(reference)
            self._weights[reference] = None
            self._weights[reference] = UNBOUNDED if target is None else self.weight(target, "")
        known = self._weights[reference]
        return UNBOUNDED if known is None else known

    def _target(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            return None
        target: Any = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and name in target:
                target = target[name]
            elif isinstance(target, list) and name.isdigit() and int(name) < len(target):
                target = target[int(name)]
            else:
                return None
        return target


def _pattern(pattern: str) -> int:
    if _LOOKS_AROUND.search(pattern):
        return UNBOUNDED
    size = len(pattern)
    for low, high in _COUNT.findall(pattern):
        size *= max(int(low or 0), int(high or 0), 1)
    return size if size <= MAX_PATTERN else UNBOUNDED
