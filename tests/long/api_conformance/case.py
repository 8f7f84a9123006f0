"""The cases: BFCL tools with a choice, and the biases under which they are sent."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.support.shared_data import BFCL, records

BIASES = ("none", "closers", "hostile")
CLOSERS = {'"': 9.0, "}": 7.5, '"}': 8.0, '",': 8.0, "]": 7.5, '"]': 7.5}
CLOSERS |= {"</think>": 8.5, "<|im_end|>": 7.5}
HOSTILE = {"<tool_call>": 8.5, "</tool_call>": 8.0}
MAX_CHARACTERS = 9000
"""Length of the JSON of a case's tools and messages; longer ones do not fit the context."""
Choice = Literal["none", "auto", "required", "named"]
CHOICES: tuple[Choice, ...] = ("none", "auto", "required", "named")


@dataclass(frozen=True)
class Case:
    messages: list[dict[str, Any]]
    """In the form of chat completions: at most one system message, then one of the user."""
    tools: list[dict[str, Any]]
    """Functions, without the object around them."""
    choice: Choice
    named: str
    """The tool that the choice `named` names."""
    parallel: bool
    think: bool | None
    """Whether the model reasons; None for its default."""
    eager: bool
    """Whether arguments are streamed as they are generated, if the API has that choice."""
    common: Mapping[str, Any]
    """Parameters that all APIs have."""
    max_tokens: int


def bias_of(name: str, model: Path) -> dict[str, float]:
    """`logit_bias` by token ID."""
    if name == "none":
        return {}
    return by_token(CLOSERS | (HOSTILE if name == "hostile" else {}), model)


def by_token(biases: Mapping[str, float], model: Path) -> dict[str, float]:
    """`logit_bias` by token ID. Texts that are no token of the model are left out."""
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = dict(tokenizer["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    return {str(ids[text]): bias for text, bias in biases.items() if text in ids}


def make_cases(
    count: int, *, model: str, bias: Mapping[str, float], max_tokens: int, seed: int
) -> list[Case]:
    rng = random.Random(seed)
    found = [record for record in records(BFCL) if _is_usable(record)]
    rng.shuffle(found)
    thinking: tuple[bool | None, ...] = (None, True, False)
    grid = [*itertools.product(CHOICES, (True, False), thinking)]
    rng.shuffle(grid)
    cases = []
    for at in range(count):
        choice, parallel, think = grid[at % len(grid)]
        record = found[at % len(found)]
        tools = [tool["function"] for tool in record["tools"]]
        common = {"model": model, "temperature": 1.0, "seed": seed * 100_003 + at}
        if bias:
            common["logit_bias"] = bias
        cases.append(
            Case(
                messages=record["messages"],
                tools=tools,
                choice=choice,
                named=rng.choice(tools)["name"],
                parallel=parallel,
                think=think,
                eager=rng.random() < 0.5,
                common=common,
                max_tokens=max_tokens,
            )
        )
    return cases


def _is_usable(record: Mapping[str, Any]) -> bool:
    """Whether the case fits the context, and means the same in every API: the Messages API joins
    consecutive messages of one role, and continues a last one of the assistant."""
    roles = [message["role"] for message in record["messages"]]
    short = len(json.dumps([record["tools"], record["messages"]])) <= MAX_CHARACTERS
    return short and roles in (["user"], ["system", "user"])
