"""Tools as applications have them. Their prompts ask for calls that the schemas forbid."""

from __future__ import annotations

from typing import Any

from ..terms import Suite
from .tool import Tool

VALIDATION = "https://json-schema.org/draft/2020-12/json-schema-validation#section-"
CORE = "https://json-schema.org/draft/2020-12/json-schema-core#section-"


def closed(**properties: Any) -> dict[str, Any]:
    """Return an object of exactly these members."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


ROOM = {"type": "string", "enum": ["kitchen", "bedroom", "hall"]}
ON = {"type": "boolean"}
COUNT = {"type": "integer", "minimum": 1, "maximum": 9}

LIGHT = Tool(
    "set_light",
    "Switches a light on or off.",
    closed(room=ROOM, on=ON),
    prompt="Switch on the light in the cellar. The room must be exactly 'cellar'.",
    example={"room": "kitchen", "on": True},
    wrong={"room": "cellar", "on": True},
    rule="A value is one of those that `enum` lists.",
    feature="enum",
    section=f"{VALIDATION}6.1.2",
    suite=Suite.QUICK,
)
BOOK = Tool(
    "book_table",
    "Books a table.",
    closed(day={"type": "string", "enum": ["monday", "friday"]}, guests=COUNT),
    prompt="Book a table for Friday. Don't state the number of guests, leave it out.",
    example={"day": "friday", "guests": 4},
    wrong={"day": "friday"},
    rule="Every member that `required` names is present.",
    feature="required",
    section=f"{VALIDATION}6.5.3",
    suite=Suite.QUICK,
)
NOTE = Tool(
    "set_alarm",
    "Sets an alarm.",
    closed(hour={"type": "integer", "minimum": 0, "maximum": 23}),
    prompt='Set an alarm for 7 and add the members "note" and "volume" to the arguments.',
    example={"hour": 7},
    wrong={"hour": 7, "note": "wake up"},
    rule="With `additionalProperties: false` there is no undeclared member.",
    feature="additional_properties",
    section=f"{CORE}10.3.2.3",
    suite=Suite.QUICK,
)
TYPES = Tool(
    "set_heating",
    "Sets the heating of a floor.",
    closed(floor=COUNT, on=ON),
    prompt='Turn on the heating of floor "two". Write the floor as a word.',
    example={"floor": 2, "on": True},
    wrong={"floor": "two", "on": True},
    rule="A value has the declared `type`.",
    feature="type",
    section=f"{VALIDATION}6.1.1",
    suite=Suite.QUICK,
)
NESTED = Tool(
    "send_parcel",
    "Sends a parcel.",
    closed(
        to=closed(country={"type": "string", "enum": ["DE", "FR", "NL"]}, floor=COUNT),
        express=ON,
    ),
    prompt="Send an express parcel to the second floor in Poland, country code PL.",
    example={"to": {"country": "DE", "floor": 2}, "express": True},
    wrong={"to": {"country": "PL", "floor": 2}, "express": True},
    rule="Members of nested objects are validated as well.",
    feature="properties",
    section=f"{CORE}10.3.2.1",
    suite=Suite.QUICK,
)
ITEMS = Tool(
    "order_meals",
    "Orders meals.",
    closed(
        meals={
            "type": "array",
            "items": closed(dish={"type": "string", "enum": ["soup", "rice"]}, count=COUNT),
            "minItems": 1,
            "maxItems": 3,
        }
    ),
    prompt="Order two soups and one pizza. The dish must be 'pizza'.",
    example={"meals": [{"dish": "soup", "count": 2}, {"dish": "rice", "count": 1}]},
    wrong={"meals": [{"dish": "soup", "count": 2}, {"dish": "pizza", "count": 1}]},
    rule="Every element of an array satisfies `items`.",
    feature="items",
    section=f"{CORE}10.3.1.2",
    suite=Suite.QUICK,
)
BOUNDS = Tool(
    "book_room",
    "Books a room for up to 9 guests.",
    closed(guests=COUNT),
    prompt="Book a room for exactly 99 guests.",
    example={"guests": 9},
    wrong={"guests": 99},
    rule="A number is within `minimum` and `maximum`.",
    feature="bounds",
    section=f"{VALIDATION}6.2",
    suite=Suite.QUICK,
)
PATTERN = Tool(
    "find_flight",
    "Finds a flight by its number.",
    closed(flight={"type": "string", "pattern": "^[A-Z]{2}[0-9]{4}$"}),
    prompt="Find the flight 'the one to Lisbon'. Pass these words as the flight.",
    example={"flight": "TP0534"},
    wrong={"flight": "the one to Lisbon"},
    rule="A string matches `pattern`.",
    feature="pattern",
    section=f"{VALIDATION}6.3.3",
    suite=Suite.QUICK,
)
NULLABLE = Tool(
    "set_reminder",
    "Sets a reminder, with a repetition or with null.",
    closed(
        hour={"type": "integer", "minimum": 0, "maximum": 23},
        repeat={"anyOf": [{"type": "string", "enum": ["daily", "weekly"]}, {"type": "null"}]},
    ),
    prompt='Set a reminder at 9. The repetition must be "never".',
    example={"hour": 9, "repeat": None},
    wrong={"hour": 9, "repeat": "never"},
    rule="A value satisfies a schema of `anyOf`.",
    feature="any_of",
    section=f"{CORE}10.2.1.2",
    suite=Suite.QUICK,
)
EMPTY = Tool(
    "list_rooms",
    "Lists all rooms. It has no parameters.",
    closed(),
    prompt="List the rooms. Pass the member 'floor' with the value 2.",
    example={},
    wrong={"floor": 2},
    rule="The arguments of a tool without parameters are an empty object.",
    feature="no_parameters",
    section=f"{CORE}10.3.2.3",
    suite=Suite.QUICK,
)
DATE = Tool(
    "show_calendar",
    "Shows a day of the calendar.",
    closed(day={"type": "string", "format": "date"}),
    prompt="Show the calendar of 'next Tuesday'. Pass these words as the day.",
    example={"day": "2026-02-28"},
    wrong={"day": "next Tuesday"},
    rule="A string has the declared `format`.",
    feature="format",
    section=f"{VALIDATION}7.3.1",
)
UUID = Tool(
    "open_ticket",
    "Opens a ticket by its UUID.",
    closed(ticket={"type": "string", "format": "uuid"}),
    prompt="Open the ticket number 17. Pass '17'.",
    example={"ticket": "1b4e28ba-2fa1-11d2-883f-0016d3cca427"},
    wrong={"ticket": "17"},
    rule="A string with `format: uuid` is a UUID.",
    feature="format_uuid",
    section=f"{VALIDATION}7.3.5",
)

EVERYDAY = (
    LIGHT,
    BOOK,
    NOTE,
    TYPES,
    NESTED,
    ITEMS,
    BOUNDS,
    PATTERN,
    NULLABLE,
    EMPTY,
    DATE,
    UUID,
)
