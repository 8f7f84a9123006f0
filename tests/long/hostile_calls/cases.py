"""Random requests that make random models call tools whose schemas are hard to enforce."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from tests.long.walks.tools import tools
from tests.support.apis.found_tools import SEARCH
from tests.support.vocabularies import by_token
from toolgate_core.dialects import mark_texts
from toolgate_core.dialects.dialect import Dialect
from toolgate_verify.asking.ask import Ask, User
from toolgate_verify.tools.tool import Tool

NAMED = "named"
CHOICES = (*("required",) * 4, NAMED, "auto", "auto", "none")
TEMPERATURES = (0.0, 0.5, 1.0, 1.0, 1.5, 2.0)
BUDGETS = (30, 40, 50, 60, 80, 120, 180, 400)
"""Values of `max_tokens`. The longer ones have room for several calls."""
CLOSERS = {'"': 9.0, "}": 7.5, '"}': 8.0, '",': 8.0, "]": 7.5, '"]': 7.5}
CLOSERS |= {"</think>": 8.5, "<|im_end|>": 7.5}
"""Biases of texts that end values, reasoning and turns."""
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


def tool_set(rng: Random, *, found: bool = False) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
    """The tools that can be called, and deferred ones that can't. If there are such, the first tool
    is a search, which has found the others. `found`: there always are."""
    offered = _tools(rng)
    while found and len(offered) == 1:
        offered = _tools(rng)
    if len(offered) == 1 or (not found and rng.random() < 0.3):
        return offered, ()
    later = tuple(replace(each, name=f"later_{at}") for at, each in enumerate(_tools(rng)))
    return (replace(offered[0], name=SEARCH), *offered[1:]), later


def _tools(rng: Random) -> tuple[Tool, ...]:
    functions = (each["function"] for each in tools(rng))
    return tuple(Tool(each["name"], "Does it.", each["parameters"]) for each in functions)


def make_case(rng: Random, offered: tuple[Tool, ...], model: str, bias: dict[str, float]) -> Ask:
    temperature = rng.choice(TEMPERATURES)
    extra: dict[str, Any] = {"model": model, "seed": rng.randrange(2**31)}
    if bias and rng.random() < 0.9:
        extra["logit_bias"] = bias
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["repetition_guard"] = False
    if options:
        extra["toolgate"] = options
    text = rng.choice(("Weather?", "</tool_call>", '{"name": "tool_0"', "北京 🙂", "a" * 300))
    choice, named = rng.choice(CHOICES), rng.choice(offered).name
    return Ask(
        (User(text),),
        tools=offered,
        strict=None,
        choice=f"={named}" if choice == NAMED else choice,
        parallel=rng.random() < 0.85,
        temperature=temperature,
        reasoning=None,
        eager=rng.random() < 0.5,
        max_tokens=rng.choice(BUDGETS),
        extra=extra,
    )
