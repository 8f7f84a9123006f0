"""Tools with a schema keyword that no mask enforces, and calls that satisfy or violate it."""

import json

from tests.support.servers.script import call, tokenize
from toolgate_core import wire

TAGS = {
    "type": "function",
    "function": {
        "name": "set_tags",
        "parameters": {
            "type": "object",
            "properties": {"tags": {"type": "array", "uniqueItems": True}},
        },
    },
}
PLAIN = {
    "type": "function",
    "function": {
        "name": "plain",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
UNIQUE = wire.ResidualKeyword(pointer="/properties/tags/uniqueItems", keyword="uniqueItems")
GOOD = call("set_tags", {"tags": ["red", "green", "blue", "yellow"]})
BAD = call("set_tags", {"tags": ["red", "red"]})


def before_value(text, value):
    """Number of tokens of `text` that end before its last `value`."""
    length, at = 0, text.rindex(value)
    for count, (_, piece) in enumerate(tokenize(text)):
        length += len(piece)
        if length > at:
            return count
    raise ValueError(value)


def calls_of(answer, choice=0):
    return [(name, json.loads(arguments)) for name, arguments in answer[choice][2]]
