"""`toolgate demo`: starts the stack, and runs six cases, a tool loop and a comparison.

Each response is shown next to the unconstrained output of the same model for the same prompt. The
comparison samples a tool with a demanding schema both ways.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI
from rich.console import Console
from rich.markup import escape

from ..stack.serve import run
from ..stack.stack import Stack, StackOptions
from . import comparison, tool_loop
from .cases import Case, cases
from .model import is_shipped
from .show import collect, count_violated, print_property, print_unconstrained, stream, summary
from .usage import print_usage

MAX_TOKENS = 400
SEED = 7

# All tokens of a random model are equally likely, so it rarely ends a string or a response. This
# bias makes tokens that end something more likely. It can't make the model emit a masked token.
CLOSERS = {"</think>": 6.0, "<|im_end|>": 7.5, '"': 9.0, "}": 7.5, '"}': 8.0, '",': 8.0, '"]': 8.0}


def demo(options: StackOptions, *, once: bool) -> int:
    """Returns the exit status: 0 if all outputs have all properties, otherwise 1."""

    def show(stack: Stack, console: Console) -> int:
        failed = _run_all(stack, options, console)
        if failed:
            console.print(f"[red]✗ {failed} properties are violated[/]")
            return 1
        correct = ", and all answers to the cases are correct" if is_shipped(options.model) else ""
        console.print(f"[green]✓ streamed and complete responses have all properties{correct}[/]")
        print_usage(stack, console, keeps_serving=not once)
        if not once:
            stack.watch()
        return 0

    return run(options, show)


def _run_all(stack: Stack, options: StackOptions, console: Console) -> int:
    """Returns the number of violated properties."""
    client = OpenAI(base_url=f"{stack.url}/v1", api_key=stack.master_key, max_retries=0)
    understands = is_shipped(options.model)
    common: dict[str, Any] = {"model": stack.model, "max_tokens": MAX_TOKENS, "seed": SEED}
    if understands:
        common |= {"temperature": 0}
        console.print(
            "[dim]The demo model has 3.8 million parameters. It was trained to call tools, so the "
            "answers to the cases are right. It was not trained for response_format or for long "
            "texts, and this demo does not show them."
        )
    else:
        common |= {"temperature": 1.0, "logit_bias": closers(Path(options.model))}
        console.print(
            "[dim]Unknown model, treated as random: temperature 1.0, with a bias for tokens that "
            "end strings, objects and responses."
        )
    failed = 0
    by_title = groupby(cases(), key=lambda case: case.title)
    for number, (title, variants) in enumerate(by_title, 1):
        console.rule(f"[bold]{number}. {escape(title)}")
        for case in variants:
            failed += _run_case(stack, client, case, common, understands, console)
    if understands:
        failed += _run_loop(stack, client, common, console)
    return failed + _compare(stack, client, common, console)


def _run_case(
    stack: Stack,
    client: OpenAI,
    case: Case,
    common: dict[str, Any],
    understands: bool,
    console: Console,
) -> int:
    request = {**common, **case.request}
    console.print(f"[dim]{escape(summary(case.request))}")
    complete = collect(client, request)
    streamed = stream(client, request, console)
    print_unconstrained(stack, request, console)
    correctness = case.correctness if understands else {}
    return count_violated({**case.properties, **correctness}, complete, streamed, console)


def _run_loop(stack: Stack, client: OpenAI, common: dict[str, Any], console: Console) -> int:
    console.rule("[bold]A tool loop: calls, their results, and a response that uses the results")
    request, content = tool_loop.run(client, common)
    for message in request["messages"][1:]:
        for call in message.get("tool_calls", []):
            function = call["function"]
            console.print(f"call: [cyan]{function['name']} {escape(function['arguments'])}")
        if message["role"] == "tool":
            console.print(f"[dim]result: {escape(message['content'])}")
    console.print(f"content: {escape(content)}")
    print_unconstrained(stack, {**common, **request}, console)
    satisfied = tool_loop.uses_results(content)
    print_property(satisfied, "the response uses both results", console)
    return not satisfied


def _compare(stack: Stack, client: OpenAI, common: dict[str, Any], console: Console) -> int:
    console.rule(
        f"[bold]{comparison.NUMBER} samples at temperature 1: the model alone, and with Toolgate"
    )
    try:
        if not comparison.is_possible(stack):
            console.print(
                "[dim]Skipped: this comparison reads raw text in the form of Hermes and Qwen3 only."
            )
            return 0
        samples = comparison.sample(stack, client, common)
    except httpx.HTTPError as error:  # the properties do not depend on the unconstrained output
        console.print(f"[dim]Skipped: a request to vLLM failed ({type(error).__name__}).")
        return 0
    return comparison.show(samples, console)


def closers(model: Path) -> dict[str, float]:
    """A `logit_bias` for tokens that end strings, objects and responses. Their ids are read from
    the model directory's tokenizer.json."""
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = dict(tokenizer["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    return {str(ids[text]): bias for text, bias in CLOSERS.items() if text in ids}
