"""How many required calls are right if `max_tokens` is small: `python -m trainer.budgets`.

Conversations in which the model reasons before the call, as of `trainer.evaluate`, greedy. With
each `max_tokens`, the reasoning leaves room for the shortest call only (`call_tokens: 0`), or for a
usual call (the default). The share is that of the calls that are right without a limit.

The model's own reasoning is short. With `--endless` it can't end it, as a model that goes on and on:
only the room that is left for the call ends the reasoning.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
from rich.console import Console

from toolgate_demo_model import path
from toolgate_proxy.demo.model import NAME
from toolgate_proxy.stack.processes import free_port
from toolgate_proxy.stack.stack import Stack, StackOptions

from .asking import Given, request_of
from .evaluate import AT_ONCE, KNOWN, Question, questions

BUDGETS = (32, 48, 64, 96, 128, 192, 256, 512)
UNLIMITED = 1024
SHORTEST: dict[str, Any] = {"toolgate": {"call_tokens": 0}}
CATEGORIES = (KNOWN, "made-up tools, any names", "arrays and nested objects")


def reasoning() -> list[Question]:
    """One call each, with reasoning before it."""
    found = questions(40)
    return [
        Question(replace(question.dialogue, thinking=True))
        for name in CATEGORIES
        for question in found[name]
        if len(question.dialogue.answer.calls) == 1
    ]


def reasoning_end() -> int:
    """The token that ends the reasoning."""
    tokenizer = json.loads((path() / "tokenizer.json").read_text())
    [token] = [each["id"] for each in tokenizer["added_tokens"] if each["content"] == "</think>"]
    return int(token)


def outcome(stack: Stack, question: Question, budget: int, extra: dict[str, Any]) -> str:
    """`right`, `wrong`, `cut`, or `refused` if no call fits."""
    tools = {"tool_choice": "required", "parallel_tool_calls": False}
    body = {"model": stack.model, **request_of(question.dialogue), **tools, **extra}
    body["max_tokens"] = budget
    headers = {"authorization": f"Bearer {stack.master_key}"}
    url = f"{stack.url}/v1/chat/completions"
    response = httpx.post(url, json=body, headers=headers, timeout=300, trust_env=False)
    if response.status_code == 400:
        assert response.json()["error"]["code"] == "max_tokens_too_small", response.text
        return "refused"
    choice = response.raise_for_status().json()["choices"][0]
    if choice.get("toolgate", {}).get("last_call") == "cut":
        return "cut"
    [call] = choice["message"]["tool_calls"]
    return "right" if is_right(question, call["function"]) else "wrong"


def is_right(question: Question, function: dict[str, str]) -> bool:
    made = ((function["name"], function["arguments"]),)
    return question.right(Given(made, ""))


def row(budget: int, whole: int, columns: Sequence[Sequence[str]]) -> str:
    cells = []
    for outcomes in columns:
        right = outcomes.count("right")
        share = f"{100 * right / whole:.0f} %"
        counts = [f"{outcomes.count(what)} {what}" for what in ("wrong", "cut", "refused")]
        cells.append(f"{share} ({right}; {', '.join(counts)})")
    return f"| {budget} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--endless", action="store_true", help="the model can't end its reasoning")
    endless = parser.parse_args().endless
    options = StackOptions(
        str(path()), port=free_port(), served_name=NAME, backend_flags=("--max-num-seqs", "16")
    )
    asked = reasoning()
    with Stack(options, Console(stderr=True)) as stack, ThreadPoolExecutor(AT_ONCE) as pool:
        bias = {"logit_bias": {str(reasoning_end()): -100}} if endless else {}

        def ask(budget: int, extra: dict[str, Any]) -> list[str]:
            return list(pool.map(lambda q: outcome(stack, q, budget, extra), asked))

        whole = ask(UNLIMITED, {}).count("right")
        print(f"{len(asked)} conversations, {whole} right with max_tokens {UNLIMITED}\n")
        print("| `max_tokens` | room for the shortest call | room for a usual call |")
        print("|---|---|---|")
        for budget in BUDGETS:
            columns = [ask(budget, SHORTEST | bias), ask(budget, bias)]
            print(row(budget, whole, columns), flush=True)


if __name__ == "__main__":
    main()
