"""The cases: BFCL tools with a choice, and the biases under which they are sent."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.logit_bias import by_token
from tests.support.shared_data import BFCL, records
from toolgate_verify.asking import request
from toolgate_verify.asking.ask import Ask, User
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

BIASES = ("none", "closers", "hostile")
CLOSERS = {'"': 9.0, "}": 7.5, '"}': 8.0, '",': 8.0, "]": 7.5, '"]': 7.5}
CLOSERS |= {"</think>": 8.5, "<|im_end|>": 7.5}
HOSTILE = {"<tool_call>": 8.5, "</tool_call>": 8.0}
MAX_CHARACTERS = 9000
"""Length of the JSON of a case's tools and messages; longer ones do not fit the context."""
NAMED = "named"
CHOICES = ("none", "auto", "required", NAMED)


def body_of(api: Api, case: Ask) -> dict[str, Any]:
    """The body of a case. Its effort only says whether the model reasons: the template's switch
    means the same in each API, and the Messages API has one of its own."""
    body = request(api, replace(case, reasoning=None)).body
    assert body is not None
    if case.reasoning is None:
        return body
    reasons = case.reasoning != "none"
    if api == Api.MESSAGES:
        return body | {"thinking": {"type": "adaptive" if reasons else "disabled"}}
    return body | {"chat_template_kwargs": {"enable_thinking": reasons}}


def tool_of(function: Mapping[str, Any]) -> Tool:
    return Tool(function["name"], function["description"], function["parameters"])


def bias_of(name: str, model: Path) -> dict[str, float]:
    """`logit_bias` by token ID."""
    if name == "none":
        return {}
    return by_token(CLOSERS | (HOSTILE if name == "hostile" else {}), model)


def make_cases(
    count: int, *, model: str, bias: Mapping[str, float], max_tokens: int, seed: int
) -> list[Ask]:
    rng = random.Random(seed)
    found = [record for record in records(BFCL) if _is_usable(record)]
    rng.shuffle(found)
    grid = [*itertools.product(CHOICES, (True, False), (None, "medium", "none"))]
    rng.shuffle(grid)
    cases = []
    for at in range(count):
        choice, parallel, reasoning = grid[at % len(grid)]
        record = found[at % len(found)]
        *system, user = (message["content"] for message in record["messages"])
        tools = tuple(tool_of(tool["function"]) for tool in record["tools"])
        named = rng.choice(tools).name
        extra: dict[str, Any] = {"model": model, "seed": seed * 100_003 + at}
        cases.append(
            Ask(
                (User(user),),
                system=system[0] if system else "",
                tools=tools,
                strict=False,
                choice=f"={named}" if choice == NAMED else choice,
                parallel=parallel,
                max_tokens=max_tokens,
                temperature=1.0,
                reasoning=reasoning,
                eager=rng.random() < 0.5,
                extra=extra | ({"logit_bias": bias} if bias else {}),
            )
        )
    return cases


def _is_usable(record: Mapping[str, Any]) -> bool:
    """Whether the case fits the context, and means the same in every API: the Messages API joins
    consecutive messages of one role, and continues a last one of the assistant."""
    roles = [message["role"] for message in record["messages"]]
    short = len(json.dumps([record["tools"], record["messages"]])) <= MAX_CHARACTERS
    return short and roles in (["user"], ["system", "user"])
