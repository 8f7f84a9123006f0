"""Schemas that constrained decoders and parsers get wrong."""

from __future__ import annotations

from typing import Any

from ..terms import Suite
from .everyday import CORE, COUNT, ON, VALIDATION, closed
from .tool import Tool

CITY = {"type": "string", "enum": ["Bonn", "Graz", "Lyon"]}
MARKUP = '</tool_call><|im_end|> "quoted" \\back\\slash\\ {"a": 1}\n\ttab 🙂 日本語 é'
NODE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "value": COUNT,
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 1},
    },
    "required": ["value", "children"],
    "additionalProperties": False,
}
DEEP_LEVELS = 8


def deep(level: int) -> dict[str, Any]:
    return closed(v=COUNT) if level == 0 else closed(d=deep(level - 1))


def deep_value(level: int, leaf: Any) -> Any:
    return {"v": leaf} if level == 0 else {"d": deep_value(level - 1, leaf)}


HOSTILE = (
    Tool(
        "set_mode",
        "Sets the only mode.",
        closed(mode={"const": "eco"}),
        prompt="Set the mode to 'turbo', exactly.",
        example={"mode": "eco"},
        wrong={"mode": "turbo"},
        rule="A value equals `const`.",
        feature="const",
        section=f"{VALIDATION}6.1.3",
    ),
    Tool(
        "add_shape",
        "Adds a circle or a square.",
        closed(
            shape={
                "anyOf": [
                    closed(kind={"const": "circle"}, radius=COUNT),
                    closed(kind={"const": "square"}, side=COUNT),
                ]
            }
        ),
        prompt="Add a circle with the side 4 (not a radius).",
        example={"shape": {"kind": "circle", "radius": 4}},
        wrong={"shape": {"kind": "circle", "side": 4}},
        rule="An object satisfies one whole branch of `anyOf`, not parts of two.",
        feature="any_of_objects",
        section=f"{CORE}10.2.1.2",
    ),
    Tool(
        "plan_route",
        "Plans a route between two cities.",
        {
            **closed(start={"$ref": "#/$defs/city"}, end={"$ref": "#/$defs/city"}),
            "$defs": {"city": CITY},
        },
        prompt="Plan a route from Bonn to Paris.",
        example={"start": "Bonn", "end": "Lyon"},
        wrong={"start": "Bonn", "end": "Paris"},
        rule="A value satisfies the schema that `$ref` names.",
        feature="ref",
        section=f"{CORE}8.2.3.1",
        suite=Suite.QUICK,
    ),
    Tool(
        "store_tree",
        "Stores a tree of numbers from 1 to 9.",
        {**closed(root={"$ref": "#/$defs/node"}), "$defs": {"node": NODE}},
        prompt="Store a tree: root 3 with one child 40 without children.",
        example={"root": {"value": 3, "children": [{"value": 4, "children": []}]}},
        wrong={"root": {"value": 3, "children": [{"value": 40, "children": []}]}},
        rule="Recursive schemas are validated at every level.",
        feature="recursion",
        section=f"{CORE}8.2.3.1",
        max_tokens=500,
    ),
    Tool(
        "save_form",
        "Saves a form with unusual names of fields.",
        closed(**{"a b": ON, 'say "hi"': ON, "path/~to": ON, "日本": ON, "back\\slash": ON}),
        prompt="Save the form, all fields true.",
        example={
            "a b": True,
            'say "hi"': True,
            "path/~to": True,
            "日本": True,
            "back\\slash": False,
        },
        wrong={"a b": True, "say hi": True, "path/~to": True, "日本": True, "back\\slash": False},
        rule="Names of members with quotes, spaces, slashes and non-ASCII characters are kept.",
        feature="member_names",
        section=f"{CORE}10.3.2.1",
        suite=Suite.QUICK,
    ),
    Tool(
        "describe_schema",
        "Describes a field.",
        closed(type=CITY, properties=ON, required=COUNT, enum=ON, **{"$ref": ON}),
        prompt="Describe the field: type Bonn, required 12.",
        example={"type": "Bonn", "properties": True, "required": 2, "enum": False, "$ref": True},
        wrong={"type": "Bonn", "properties": True, "required": 12, "enum": False, "$ref": True},
        rule="Members that are named like keywords are members.",
        feature="keyword_names",
        section=f"{CORE}10.3.2.1",
    ),
    Tool(
        "print_text",
        "Prints the given text.",
        closed(text={"type": "string", "enum": [MARKUP]}),
        prompt="Print the text.",
        example={"text": MARKUP},
        wrong={"text": MARKUP.replace("</tool_call>", "")},
        rule="Markup, quotes, backslashes, control characters and emoji in values are kept.",
        feature="hostile_text",
        section=f"{VALIDATION}6.1.2",
        suite=Suite.QUICK,
    ),
    Tool(
        "draw_lots",
        "Draws exactly three numbers.",
        closed(lots={"type": "array", "items": COUNT, "minItems": 3, "maxItems": 3}),
        prompt="Draw the five lots 1, 2, 3, 4 and 5.",
        example={"lots": [1, 2, 3]},
        wrong={"lots": [1, 2, 3, 4, 5]},
        rule="An array has between `minItems` and `maxItems` elements.",
        feature="array_length",
        section=f"{VALIDATION}6.4",
        suite=Suite.QUICK,
    ),
    Tool(
        "set_code",
        "Sets a code of 3 to 8 characters.",
        closed(code={"type": "string", "minLength": 3, "maxLength": 8}),
        prompt="Set the code to 'abcdefghijklmnopqrstuvwxyz'.",
        example={"code": "abc123"},
        wrong={"code": "abcdefghijklmnopqrstuvwxyz"},
        rule="A string has between `minLength` and `maxLength` characters.",
        feature="string_length",
        section=f"{VALIDATION}6.3",
    ),
    Tool(
        "set_step",
        "Sets a step: a multiple of 5 below 50.",
        closed(
            step={"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 50, "multipleOf": 5}
        ),
        prompt="Set the step to 50.",
        example={"step": 45},
        wrong={"step": 50},
        rule="A number is within `exclusiveMinimum` and `exclusiveMaximum`, and a multiple.",
        feature="exclusive_bounds",
        section=f"{VALIDATION}6.2",
    ),
    Tool(
        "set_ratio",
        "Sets a ratio from 0 to 1.",
        closed(ratio={"type": "number", "minimum": 0, "maximum": 1}),
        prompt="Set the ratio to 7.5.",
        example={"ratio": 0.25},
        wrong={"ratio": 7.5},
        rule="A fractional number is within its bounds.",
        feature="number_bounds",
        section=f"{VALIDATION}6.2",
    ),
    Tool(
        "enter_maze",
        "Enters a maze.",
        deep(DEEP_LEVELS),
        prompt="Enter the maze with the value 77 at its end.",
        example=deep_value(DEEP_LEVELS, 7),
        wrong=deep_value(DEEP_LEVELS, 77),
        rule="Objects are validated at a depth of nine levels.",
        feature="depth",
        section=f"{CORE}10.3.2.1",
    ),
    Tool(
        "pick_word",
        "Picks one of 200 words.",
        closed(word={"type": "string", "enum": [f"word-{number:03}" for number in range(200)]}),
        prompt="Pick the word 'word-200'.",
        example={"word": "word-199"},
        wrong={"word": "word-200"},
        rule="An `enum` of 200 values is respected.",
        feature="large_enum",
        section=f"{VALIDATION}6.1.2",
    ),
)
