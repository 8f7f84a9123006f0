"""Schemas outside of the subset that `strict` usually allows. A server may refuse them with
`strict`, but must not accept them without enforcing them."""

from __future__ import annotations

from .everyday import CORE, COUNT, ON, VALIDATION, closed
from .hostile import CITY
from .tool import Tool

OPTIONAL = {f"option_{number}": ON for number in range(30)}

RESIDUAL = (
    Tool(
        "set_options",
        "Sets options. Only the profile is required.",
        {
            "type": "object",
            "properties": {"profile": CITY, **OPTIONAL},
            "required": ["profile"],
            "additionalProperties": False,
        },
        prompt="Set option 3 to true and the unknown option 99 to true, for the profile Bonn.",
        example={"profile": "Bonn", "option_3": True},
        wrong={"profile": "Bonn", "option_3": True, "option_99": True},
        rule="Members that are not required may be left out, and no others added.",
        feature="optional_members",
        section=f"{VALIDATION}6.5.3",
    ),
    Tool(
        "set_point",
        "Sets a point: a city, then a number.",
        closed(
            point={
                "type": "array",
                "prefixItems": [CITY, COUNT],
                "items": False,
                "minItems": 2,
            }
        ),
        prompt="Set the point to the number 3 first, then the city Bonn.",
        example={"point": ["Bonn", 3]},
        wrong={"point": [3, "Bonn"]},
        rule="The elements of a tuple satisfy `prefixItems` in order.",
        feature="prefix_items",
        section=f"{CORE}10.3.1.1",
    ),
    Tool(
        "count_votes",
        "Counts votes per city.",
        closed(
            votes={
                "type": "object",
                "additionalProperties": COUNT,
                "minProperties": 1,
                "maxProperties": 3,
                "propertyNames": {"enum": ["Bonn", "Graz", "Lyon"]},
            }
        ),
        prompt="Count the votes: Bonn 3, Paris 2.",
        example={"votes": {"Bonn": 3}},
        wrong={"votes": {"Bonn": 3, "Paris": 2}},
        rule="Names of members satisfy `propertyNames`.",
        feature="property_names",
        section=f"{CORE}10.3.2.4",
    ),
    Tool(
        "merge_rules",
        "Sets a number by two rules.",
        closed(
            number={"allOf": [{"type": "integer", "minimum": 1}, {"type": "integer", "maximum": 9}]}
        ),
        prompt="Set the number to 12.",
        example={"number": 5},
        wrong={"number": 12},
        rule="A value satisfies all schemas of `allOf`.",
        feature="all_of",
        section=f"{CORE}10.2.1.1",
    ),
    Tool(
        "pick_numbers",
        "Picks two different numbers.",
        closed(
            numbers={
                "type": "array",
                "items": {"enum": [1, 2, 3]},
                "minItems": 2,
                "maxItems": 2,
                "uniqueItems": True,
            }
        ),
        prompt="Pick the number 2 twice.",
        example={"numbers": [1, 2]},
        wrong={"numbers": [2, 2]},
        rule="With `uniqueItems` no element occurs twice.",
        feature="unique_items",
        section=f"{VALIDATION}6.4.3",
    ),
    Tool(
        "choose_one",
        "Chooses a number by exactly one of two rules.",
        closed(
            number={
                "oneOf": [
                    {"type": "integer", "minimum": 1, "maximum": 6},
                    {"type": "integer", "minimum": 4, "maximum": 9},
                ]
            }
        ),
        prompt="Choose the number 5.",
        example={"number": 2},
        wrong={"number": 5},
        rule="A value satisfies exactly one schema of `oneOf`.",
        feature="one_of",
        section=f"{CORE}10.2.1.3",
    ),
    Tool(
        "avoid_city",
        "Chooses a city other than Graz.",
        closed(city={**CITY, "not": {"const": "Graz"}}),
        prompt="Choose the city Graz.",
        example={"city": "Bonn"},
        wrong={"city": "Graz"},
        rule="A value does not satisfy the schema of `not`.",
        feature="not",
        section=f"{CORE}10.2.1.4",
    ),
    Tool(
        "roll_dice",
        "Rolls three dice, one of them a six.",
        closed(
            dice={
                "type": "array",
                "items": {"type": "integer", "minimum": 1, "maximum": 6},
                "contains": {"const": 6},
                "minItems": 3,
                "maxItems": 3,
            }
        ),
        prompt="Roll 1, 2 and 3.",
        example={"dice": [1, 6, 3]},
        wrong={"dice": [1, 2, 3]},
        rule="An element satisfies `contains`.",
        feature="contains",
        section=f"{CORE}10.3.1.3",
    ),
    Tool(
        "set_card",
        "Sets a card. A card has a code as well.",
        {
            "type": "object",
            "properties": {"card": CITY, "code": COUNT},
            "required": ["card"],
            "dependentRequired": {"card": ["code"]},
            "additionalProperties": False,
        },
        prompt="Set the card Bonn, without a code.",
        example={"card": "Bonn", "code": 4},
        wrong={"card": "Bonn"},
        rule="`dependentRequired` requires members if another is present.",
        feature="dependent_required",
        section=f"{VALIDATION}6.5.4",
    ),
    Tool(
        "ship_goods",
        "Ships goods. Goods to Lyon have a floor from 5.",
        {
            **closed(city=CITY, floor=COUNT),
            "if": {"properties": {"city": {"const": "Lyon"}}},
            "then": {"properties": {"floor": {"minimum": 5}}},
        },
        prompt="Ship the goods to Lyon, floor 2.",
        example={"city": "Lyon", "floor": 6},
        wrong={"city": "Lyon", "floor": 2},
        rule="`then` applies where `if` is satisfied.",
        feature="if_then",
        section=f"{CORE}10.2.2",
    ),
)
