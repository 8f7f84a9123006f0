"""Random tools whose schemas are hard to enforce."""

from __future__ import annotations

from random import Random
from typing import Any

Schema = dict[str, Any]

NAMES = ("city", "a", "b", "é", "北京", "long name of it", 'quo"te', "</tool_call>", "x-y", "__1")
TEXTS = ("", "a", "bc", "é🙂", "x y", '"', "\\", "\n", "</think>", "null", "1", "true")
PATTERNS = ("^[A-Z]{2}-\\d{3}$", "^a*b$", "(foo|bar)+", "^\\S+@\\S+$", "^.{3,6}$", "[^x]")
FORMATS = ("date", "date-time", "uuid", "ipv4", "email")


def tools(rng: Random) -> list[Schema]:
    """One to three functions as OpenAI's API has them."""
    return [
        {"type": "function", "function": {"name": f"tool_{at}", "parameters": parameters(rng)}}
        for at in range(rng.choice((1, 1, 2, 3)))
    ]


def parameters(rng: Random) -> Schema:
    made = _object(rng, 0)
    if rng.random() < 0.15:
        made["$defs"] = {"node": _object(rng, 2)}
        made["$defs"]["node"]["properties"]["next"] = {"$ref": "#/$defs/node"}
        made["properties"]["tree"] = {"$ref": "#/$defs/node"}
    return made


def value(rng: Random, depth: int) -> Schema:
    kinds = [_text, _text, _number, _listed, _plain]
    if depth < 4:
        kinds += [_object, _array, _array, _several]
    return rng.choice(kinds)(rng, depth)


def _plain(rng: Random, depth: int) -> Schema:
    return rng.choice(({"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {}))


def _text(rng: Random, depth: int) -> Schema:
    made: Schema = {"type": "string"}
    match rng.randrange(5):
        case 0:
            made["minLength"] = rng.randrange(4)
            made["maxLength"] = made["minLength"] + rng.choice((0, 1, 9, 200))
        case 1:
            made["pattern"] = rng.choice(PATTERNS)
        case 2:
            made["format"] = rng.choice(FORMATS)
    return made


def _number(rng: Random, depth: int) -> Schema:
    made: Schema = {"type": rng.choice(("integer", "number"))}
    if rng.random() < 0.6:
        low = rng.choice((-1000, -1, 0, 1, 7))
        made["minimum"], made["maximum"] = low, low + rng.choice((0, 1, 12, 100_000))
    if rng.random() < 0.15:
        made["multipleOf"] = rng.choice((2, 5, 0.5))
    return made


def _listed(rng: Random, depth: int) -> Schema:
    values: list[Any] = [*rng.sample(TEXTS, rng.randint(1, 4)), *rng.sample([None, 1, 0.5], 1)]
    return {"enum": values} if rng.random() < 0.8 else {"const": values[0]}


def _array(rng: Random, depth: int) -> Schema:
    made: Schema = {"type": "array", "items": value(rng, depth + 1)}
    if rng.random() < 0.7:
        made["minItems"] = rng.choice((0, 1, 2, 5))
        made["maxItems"] = made["minItems"] + rng.choice((0, 1, 3))
    if rng.random() < 0.2:
        made["uniqueItems"] = True
        made["items"] = {"enum": rng.sample(TEXTS, 6)}
    return made


def _object(rng: Random, depth: int) -> Schema:
    names = rng.sample(NAMES, rng.randint(0, 4))
    made: Schema = {
        "type": "object",
        "properties": {name: value(rng, depth + 1) for name in names},
        "required": [name for name in names if rng.random() < 0.6],
    }
    match rng.randrange(4):
        case 0:
            made["additionalProperties"] = value(rng, depth + 2)
        case 1:
            made["additionalProperties"] = False
        case 2 if names:
            made["dependentRequired"] = {names[0]: names[-1:]}
    return made


def _several(rng: Random, depth: int) -> Schema:
    parts = [value(rng, depth + 1) for _ in range(rng.randint(2, 3))]
    match rng.randrange(3):
        case 0:
            return {"oneOf": parts}
        case 1:
            return {"anyOf": parts, "description": "beside others"}
        case _:
            return {"if": parts[0], "then": parts[1]} if rng.random() < 0.3 else {"anyOf": parts}
