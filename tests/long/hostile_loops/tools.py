"""The twenty tools of the hostile MCP server. The name of a tool says what its server does."""

from __future__ import annotations

from random import Random
from typing import Any

from jsonschema import Draft202012Validator

Schema = dict[str, Any]

LOOP = "loop"
"""An argument: the number of the loop that calls."""
FAULTS = (
    "slow",  # no result in time
    "hangs",  # half a response, and then nothing
    "huge",  # megabytes of text
    "fails",  # a result that says that it is an error
    "raises",  # an error of the protocol
    "wrong",  # a result of the wrong types
    "cut",  # half a response
    "drops",  # no response
    "crashes",  # the process ends
    "changes",  # the schema is another one in every second list
    "vanishes",  # missing in every second list
)
REPEATABLE = ("huge", "fails", "raises", "wrong")
"""Those whose result is the same each time, and that leave other calls alone."""
INTEGER: Schema = {"type": "integer", "minimum": -5, "maximum": 99}
WORD: Schema = {"type": "string", "enum": ["a", "b", 'quo"te', "北京 🙂", "</tool_call>"]}
TEXT: Schema = {"type": "string", "maxLength": 12}
LIST: Schema = {"type": "array", "items": INTEGER, "minItems": 1, "maxItems": 3}
NESTED: Schema = {
    "type": "object",
    "properties": {"word": WORD, "on": {"type": "boolean"}},
    "required": ["word", "on"],
    "additionalProperties": False,
}
PLAIN: tuple[Schema, ...] = (INTEGER, WORD, TEXT, LIST, NESTED)


def _schema(**members: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {LOOP: {"type": "integer"}, **members},
        "required": [LOOP, *members],
        "additionalProperties": False,
    }


SCHEMAS: dict[str, tuple[Schema, ...]] = {
    **{f"plain_{at}": (_schema(value=PLAIN[at % 5], more=PLAIN[at // 5]),) for at in range(9)},
    **{fault: (_schema(value=INTEGER),) for fault in FAULTS},
    "changes": (_schema(value=INTEGER), _schema(value=WORD)),
}
"""By name: the schemas that a tool has in turn."""


def offered(listing: int) -> dict[str, Schema]:
    """Return the tools of a list. `listing`: its number."""
    return {
        name: schemas[listing % len(schemas)]
        for name, schemas in SCHEMAS.items()
        if name != "vanishes" or listing % 2 == 0
    }


def is_valid(name: str, arguments: Any) -> bool:
    """Return whether arguments satisfy a schema that the tool had in some list. The gateway
    validates with another library."""
    return any(Draft202012Validator(each).is_valid(arguments) for each in SCHEMAS[name])


def instance(schema: Schema, rng: Random) -> Any:
    """Return a random value that satisfies one of the schemas above."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema["type"]:
        case "integer":
            return rng.randint(schema.get("minimum", 0), schema.get("maximum", 9))
        case "boolean":
            return rng.random() < 0.5
        case "string":
            return "".join(rng.choice('ab {"\\\n🙂') for _ in range(rng.randint(0, 12)))
        case "array":
            return [instance(schema["items"], rng) for _ in range(rng.randint(1, 3))]
    return {name: instance(each, rng) for name, each in schema["properties"].items()}
