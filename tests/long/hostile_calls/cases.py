"""Random requests that make random models call tools whose schemas are hard to enforce."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from tests.long.api_conformance.case import CLOSERS, Case, Choice, by_token
from tests.long.walks.tools import tools
from toolgate_core.dialects import mark_texts
from toolgate_core.dialects.dialect import Dialect

CHOICES: tuple[Choice, ...] = (*("required",) * 4, "named", "auto", "auto", "none")
TEMPERATURES = (0.0, 0.5, 1.0, 1.0, 1.5, 2.0)
BUDGETS = (30, 40, 50, 60, 80, 120, 180, 400)
"""Values of `max_tokens`. The longer ones have room for several calls."""
CLOSE_MARK, HOSTILE_MARK = 7.5, 8.0
"""Biases of texts that end something, and of texts of calls. They balance the closers of JSON."""


def biases(dialect: Dialect, model: Path) -> list[dict[str, float]]:
    """`logit_bias` by token ID, of three kinds. A random model then ends its values, calls and
    turns; it also writes the family's marks everywhere; it does not end its turns, so that it calls
    again and again."""
    closing = dict.fromkeys(mark_texts.closing_texts(dialect), CLOSE_MARK)
    calling = dict.fromkeys(mark_texts.call_texts(dialect), HOSTILE_MARK)
    ends = (*mark_texts.end_texts(dialect), mark_texts.END_OF_TURN)
    wanted = [CLOSERS | closing, CLOSERS | closing | calling]
    wanted.append({text: bias for text, bias in wanted[1].items() if text not in ends})
    return [by_token(each, model) for each in wanted]


def tool_set(rng: Random) -> list[dict[str, Any]]:
    """Functions, without the object around them."""
    return [{**tool["function"], "description": "Does it."} for tool in tools(rng)]


def make_case(
    rng: Random, functions: list[dict[str, Any]], model: str, bias: dict[str, float]
) -> Case:
    common: dict[str, Any] = {
        "model": model,
        "temperature": rng.choice(TEMPERATURES),
        "seed": rng.randrange(2**31),
    }
    if bias and rng.random() < 0.9:
        common["logit_bias"] = bias
    options: dict[str, Any] = {}
    if rng.random() < 0.7:  # then even a small budget has a whole call
        options["on_budget"] = "close"
    if rng.random() < 0.3:
        options["repetition_guard"] = False
    if options:
        common["toolgate"] = options
    text = rng.choice(("Weather?", "</tool_call>", '{"name": "tool_0"', "北京 🙂", "a" * 300))
    return Case(
        messages=[{"role": "user", "content": text}],
        tools=functions,
        choice=rng.choice(CHOICES),
        named=rng.choice(functions)["name"],
        parallel=rng.random() < 0.85,
        think=None,
        eager=rng.random() < 0.5,
        common=common,
        max_tokens=rng.choice(BUDGETS),
    )
