"""Damage to a body: at a few places a field is removed or gets any JSON."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

WORDS = [
    *("text", "image", "tool_use", "tool_result", "document", "thinking", "input_text", "message"),
    *("function_call", "function_call_output", "reasoning", "user", "assistant", "system", "tool"),
    *(
        "function",
        "custom",
        "namespace",
        "auto",
        "any",
        "required",
        "none",
        "json_schema",
        "object",
    ),
    *("string", "array", "call_0_0", "toolu_0_0", "", "\x00", "\ud800", "🙂", "a" * 3000),
]
NAMES = ["type", "content", "text", "id", "call_id", "name", "input", "source", "role", "é", ""]
SCALARS: list[Any] = [None, True, False, 0, -1, 1, 7, 10**30, -(2**63), 0.5, 1e300]
KEPT = ("model", "max_tokens", "max_output_tokens", "min_tokens", "ignore_eos")
"""Parameters that are not damaged. Without a maximum, responses are as long as the context."""
Path = tuple[Any, ...]


def damage(rng: Random, body: dict[str, Any]) -> dict[str, Any]:
    body = copy.deepcopy(body)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if not (found := _places(body)):
            break
        *outer, name = rng.choice(found)
        at: Any = body
        for each in outer:
            at = at[each]
        if rng.random() < 0.25:
            del at[name]
        else:
            at[name] = _anything(rng, 0)
    return body


def _places(value: Any, path: Path = ()) -> list[Path]:
    """The paths of all fields and items."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[Path] = []
    for name, each in inner:
        if not path and name in KEPT:
            continue
        found.append((*path, name))
        if isinstance(each, dict | list):
            found += _places(each, (*path, name))
    return found


def _anything(rng: Random, depth: int) -> Any:
    kind = rng.choice(["scalar", "word"] if depth > 2 else ["scalar", "word", "array", "object"])
    if kind == "scalar":
        return rng.choice(SCALARS)
    if kind == "word":
        return rng.choice(WORDS)
    items = [_anything(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if kind == "array":
        return items
    return dict(zip(rng.sample(NAMES, len(items)), items, strict=True))
