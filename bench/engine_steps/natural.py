"""Calls as a trained model writes them: words in strings, small numbers, ends where they belong."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from bench.support.tools import small_tools
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.tools import parse_tools

TOOLS = 8
SENTENCE = (
    "the quick report of Oslo weather in March shows that revenue grew by seven percent while "
    "costs fell and customers from Norway asked about new delivery options for winter boots"
)
WORDS = SENTENCE.split()
STRING_WORDS = 8, 40
"""The least number of words in a string, and the first number above the most."""


def natural_calls(vocabulary: Vocabulary, count: int) -> list[list[int]]:
    """The tokens of calls of one of the tools each, with the end of the turn."""
    rng, form = random.Random(1), vocabulary.form
    tools = parse_tools(small_tools(TOOLS))
    end = vocabulary.marks.end_of_turn[0]
    calls = []
    for _ in range(count):
        tool = rng.choice(tools)
        before, after = form.grammar_texts(tool.name)
        arguments = json.dumps(natural_value(tool.parameters, rng), ensure_ascii=False)
        text = form.begin + form.head(tool.name) + before + arguments + after + form.tail(tool.name)
        calls.append([*vocabulary.literal_tokens(text + form.end), end])
    return calls


def natural_value(schema: Mapping[str, Any], rng: random.Random) -> Any:
    """A value that the schema allows, if it has simple types only."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema.get("type"):
        case "integer":
            return rng.randrange(1, 100)
        case "number":
            return rng.randrange(1, 1000) / 10
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [natural_value(schema.get("items", {}), rng) for _ in range(rng.randrange(1, 4))]
        case "object":
            return {
                name: natural_value(each, rng)
                for name, each in schema.get("properties", {}).items()
            }
        case _:
            return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(*STRING_WORDS)))
