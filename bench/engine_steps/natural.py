"""Calls as a trained model writes them: words in strings, small numbers, ends where they belong."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.tools import Tool

SENTENCE = (
    "the quick report of Oslo weather in March shows that revenue grew by seven percent while "
    "costs fell and customers from Norway asked about new delivery options for winter boots"
)
WORDS = SENTENCE.split()
STRING_WORDS = 8, 40
"""The least number of words in a string, and the first number above the most."""


def natural_call(vocabulary: Vocabulary, tools: Sequence[Tool], rng: random.Random) -> list[int]:
    """The tokens of a call of one of the tools, with the end of the turn."""
    tool, form = rng.choice(tools), vocabulary.form
    before, after = form.grammar_texts(tool.name)
    arguments = json.dumps(_value(tool.parameters, rng), ensure_ascii=False)
    text = form.begin + form.head(tool.name) + before + arguments + after + form.tail(tool.name)
    end = vocabulary.tokenizer.eos_token_id
    return [*vocabulary.literal_tokens(text + form.end), end]


def _value(schema: Mapping[str, Any], rng: random.Random) -> Any:
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
            return [_value(schema.get("items", {}), rng) for _ in range(rng.randrange(1, 4))]
        case "object":
            return {name: _value(each, rng) for name, each in schema["properties"].items()}
        case _:
            return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(*STRING_WORDS)))
