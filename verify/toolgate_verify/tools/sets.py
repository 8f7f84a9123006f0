"""Sets of tools as agents offer them, and tools for single rules."""

from __future__ import annotations

from .everyday import BOOK, BOUNDS, COUNT, EMPTY, LIGHT, NESTED, NOTE, ON, TYPES, closed
from .tool import Tool

WORD = {"type": "string", "maxLength": 24}

HOME = (LIGHT, NOTE, TYPES, EMPTY, BOUNDS)
TRAVEL = (
    BOOK,
    NESTED,
    Tool(
        "search_hotels",
        "Searches hotels.",
        closed(city=WORD, stars=COUNT, breakfast=ON),
        example={"city": "Graz", "stars": 4, "breakfast": True},
    ),
    Tool(
        "convert_currency",
        "Converts an amount.",
        closed(
            amount={"type": "number", "minimum": 0, "maximum": 1000},
            to={"type": "string", "enum": ["EUR", "CHF", "SEK"]},
        ),
        example={"amount": 12.5, "to": "CHF"},
    ),
)
CODING = (
    Tool(
        "read_file",
        "Reads a file, or a range of its lines.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "maxLength": 40},
                "range": {
                    "anyOf": [
                        {"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2},
                        {"type": "null"},
                    ]
                },
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        example={"path": "src/main.py", "range": [1, 9]},
    ),
    Tool(
        "run_shell",
        "Runs a command.",
        closed(command={"type": "string", "maxLength": 40}, timeout=COUNT),
        example={"command": "ls -l", "timeout": 5},
    ),
    Tool(
        "edit_file",
        "Replaces text in a file.",
        closed(path=WORD, old=WORD, new=WORD, all=ON),
        example={"path": "a.py", "old": "x = 1\n", "new": 'x = "2"\n', "all": False},
    ),
)
SETS = {
    "home": (HOME, "Switch off all lights, then set an alarm for 6."),
    "travel": (TRAVEL, "Find a hotel with breakfast in Graz with 4 stars."),
    "coding": (CODING, "Look at the first lines of src/main.py."),
}

PREFIXES = tuple(
    Tool(name, f"Tool {name}.", closed(on=ON), example={"on": True})
    for name in ("get", "get_weather", "get_weather_now", "getWeather-2")
)
MANY = tuple(
    Tool(f"tool_{number:02}", f"Tool number {number}.", closed(on=ON), example={"on": True})
    for number in range(64)
)
LONGEST_NAME = Tool("n" * 64, "A tool with the longest name.", closed(on=ON), example={"on": True})
LONG = Tool(
    "store_readings",
    "Stores exactly 60 readings from 1 to 9.",
    closed(readings={"type": "array", "items": COUNT, "minItems": 60, "maxItems": 60}),
    prompt="Store sixty readings, all of them 7.",
    example={"readings": [7] * 60},
    max_tokens=500,
)
ENDLESS = Tool(
    "write_book",
    "Writes a book.",
    closed(text={"type": "string", "minLength": 2000}),
    prompt="Write a book of many pages.",
    example={"text": "It was a dark and stormy night. " * 80},
)


_STORY = (
    "The keeper climbed the stairs at dusk, lit the lamp, and wrote the names of all ships that "
    "passed into the book on the table. "
)
COPY = Tool(
    "save_text",
    "Saves a text.",
    closed(text={"type": "string"}),
    prompt=f"Save this text, word for word: {_STORY * 5}",
    example={"text": (_STORY * 5).strip()},
)
"""A call that is long, though its schema allows a short one."""


def tagged(number: int) -> Tool:
    """Return a tool whose only value belongs to one request."""
    tag = f"tag-{number:02}"
    return Tool("report", "Reports a tag.", closed(tag={"const": tag}), example={"tag": tag})
