"""Values of parameters, from the tables of the gateway: valid ones, invalid ones, and any ones.

A new parameter is fuzzed without a change here. Some bodies are damaged.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.support.apis.value_examples import invalid, valid
from toolgate_proxy.api.shared.parameter import Parameter

HANG_UP, WRONG, INVALID, DAMAGED = 0.1, 0.03, 0.04, 0.12
WRONG_VALUES: list[Any] = [None, True, -1, 0, 1.5, 10**30, "", "x", [], [3], {}, {"a": 1}]
"""Values for any parameter. Some of them are valid for some parameters."""
DRAWN = {
    "temperature",
    "n",
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "min_tokens",
    "ignore_eos",
    "stop_token_ids",
    "bad_words",
    "logit_bias",
    "top_logprobs",
    "logprob_token_ids",
    "prompt_logprobs",
    "allowed_token_ids",
    "repetition_detection",
}
"""Sampling parameters that depend on the rest of the request. The requests draw them, unless they
can't be combined with tools and formats."""

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


@dataclass(frozen=True)
class Request:
    body: dict[str, Any]
    meaning: dict[str, Any]
    """The body in the form of chat completions. The response is checked against it."""
    wrong: bool = False
    """Something may be invalid, so the response may be a 400."""
    invalid: str | None = None
    """Name of a parameter whose value is invalid. The response must be a 400 that names it."""
    hang_up: float | None = None
    """Seconds after which the client disconnects."""


@dataclass(frozen=True)
class Values:
    sampling: dict[str, tuple[Any, ...]]
    """All sampling parameters that are not in `DRAWN`, with the valid examples of the table."""
    names: list[str]
    """Names of parameters, one of them unknown."""
    invalid: list[tuple[str, Any]]
    """Values that the table declares invalid."""


def values_of(table: Iterable[Parameter]) -> Values:
    rows = [row for row in table if row.name != "model"]
    return Values(
        {
            row.name: valid(row.type)
            for row in rows
            if row.sampling and row.type and row.name not in DRAWN
        },
        ["unheard_of", *(row.name for row in rows)],
        [(row.name, value) for row in rows if row.type for value in invalid(row.type)],
    )


def spoilt(
    rng: Random, values: Values, body: dict[str, Any], meaning: dict[str, Any] | None = None
) -> Request:
    """The request of a valid body. Some have an invalid value, or something that may be invalid;
    in some cases the client disconnects. `meaning`: by default the body."""
    wrong, invalid = False, None
    chance = rng.random()
    if chance < WRONG:
        wrong = True
        body[rng.choice(values.names)] = rng.choice(WRONG_VALUES)
    elif chance < WRONG + INVALID:
        invalid, body[invalid] = rng.choice(values.invalid)
    elif chance < WRONG + INVALID + DAMAGED:
        wrong, body = True, damage(rng, body)
    hang_up = rng.uniform(0.01, 2.0) if rng.random() < HANG_UP else None
    return Request(body, body if meaning is None else meaning, wrong, invalid, hang_up)


def damage(rng: Random, body: dict[str, Any]) -> dict[str, Any]:
    """At a few places a field is removed or gets any JSON."""
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
