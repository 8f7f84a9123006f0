"""`toolgate demo`: the stack, and the six cases and a tool loop through the OpenAI SDK.

Beside each stands what the model says to the same prompt alone, without enforcement.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI
from rich.console import Console
from rich.markup import escape

from ..stack.serve import announce, run
from ..stack.stack import Stack, StackOptions
from . import tool_loop
from .cases import Answer, Holds, cases
from .model import is_shipped
from .unconstrained import alone

MAX_TOKENS = 400
SEED = 7
ALONE_SHOWN = 240
"""Characters of what the model says alone."""

# A random model ends nothing by itself: every token is as likely as any other. These are made
# likelier, so that strings, objects and answers end within the budget. Only allowed tokens can
# come, biased or not.
CLOSERS = {"</think>": 6.0, "<|im_end|>": 7.5, '"': 9.0, "}": 7.5, '"}': 8.0, '",': 8.0, '"]': 8.0}


def demo(options: StackOptions, *, once: bool) -> int:
    """Exit status: 0 when every property held, 1 otherwise."""

    def show(stack: Stack, console: Console) -> int:
        failed = _run_cases(stack, options, console)
        if failed:
            console.print(f"[red]✗ {failed} properties failed[/]")
            return 1
        true = ", and every answer was true" if is_shipped(options.model) else ""
        console.print(f"[green]✓ every property held, streamed and not{true}[/]")
        if not once:
            _say_how_to_call(stack, console)
            stack.watch()
        return 0

    return run(options, show)


def _run_cases(stack: Stack, options: StackOptions, console: Console) -> int:
    client = OpenAI(base_url=f"{stack.url}/v1", api_key=stack.master_key, max_retries=0)
    understands = is_shipped(options.model)
    common = {"model": stack.model, "max_tokens": MAX_TOKENS, "seed": SEED}
    if understands:
        common |= {"temperature": 0}
    else:
        common |= {"temperature": 1.0, "logit_bias": closers(Path(options.model))}
        console.print("[dim]Taken for a random model: sampled at 1.0, with a bias towards ends.")
    failed = 0
    for case in cases():
        console.rule(f"[bold]{escape(case.title)}")
        console.print(f"[dim]{escape(_shown(case.request))}")
        whole = _collect(client, {**common, **case.request})
        streamed = _stream(client, {**common, **case.request}, console)
        _show_alone(stack, {**common, **case.request}, console)
        truth = case.truth if understands else {}
        failed += _judge({**case.properties, **truth}, whole, streamed, console)
    if understands:
        failed += _run_loop(stack, client, common, console)
    return failed


def _run_loop(stack: Stack, client: OpenAI, common: dict[str, Any], console: Console) -> int:
    console.rule("[bold]a tool loop: calls, their results, a sentence that uses them")
    request, content = tool_loop.run(client, common)
    for message in request["messages"][1:]:
        for call in message.get("tool_calls", []):
            function = call["function"]
            console.print(f"[cyan]→ {function['name']} {escape(function['arguments'])}")
        if message["role"] == "tool":
            console.print(f"[dim]← {escape(message['content'])}")
    console.print(escape(content))
    _show_alone(stack, {**common, **request}, console)
    held = tool_loop.true_of(content)
    _mark(held, "the sentence uses both results", console)
    return not held


def _show_alone(stack: Stack, request: dict[str, Any], console: Console) -> None:
    try:
        text = alone(stack.backend_url, stack.backend_key, stack.model, request)
    except httpx.HTTPError as error:  # it is only shown: what is enforced does not hang on it
        text = f"({type(error).__name__})"
    shown = " ".join(text.split())
    shown = shown if len(shown) <= ALONE_SHOWN else f"{shown[:ALONE_SHOWN]} …"
    console.print(f"[dim]the model alone: {escape(shown)}")


def _collect(client: OpenAI, request: dict[str, Any]) -> Answer:
    choice = client.chat.completions.create(**request).choices[0]
    message = choice.message
    return Answer(
        content=message.content or None,
        reasoning=getattr(message, "reasoning_content", None),
        calls=[(c.function.name, c.function.arguments) for c in message.tool_calls or []],
        finish_reason=choice.finish_reason,
    )


def _stream(client: OpenAI, request: dict[str, Any], console: Console) -> Answer:
    """Prints what comes as it comes."""
    answer = Answer()
    for chunk in client.chat.completions.create(**request, stream=True):
        for choice in chunk.choices:
            delta = choice.delta
            reasoning = getattr(delta, "reasoning_content", None)
            if reasoning:
                answer.reasoning = (answer.reasoning or "") + reasoning
                console.print(f"[dim italic]{escape(reasoning)}", end="")
            if delta.content:
                answer.content = (answer.content or "") + delta.content
                console.print(escape(delta.content), end="")
            for call in delta.tool_calls or []:
                if call.function.name:
                    answer.calls.append((call.function.name, ""))
                    console.print(f"\n[cyan]→ {call.function.name}[/] ", end="")
                name, arguments = answer.calls[call.index]
                answer.calls[call.index] = (name, arguments + (call.function.arguments or ""))
                console.print(f"[cyan]{escape(call.function.arguments or '')}", end="")
            answer.finish_reason = choice.finish_reason or answer.finish_reason
    console.print(f"\n[dim]finish_reason: {answer.finish_reason}")
    return answer


def _judge(properties: dict[str, Holds], whole: Answer, streamed: Answer, console: Console) -> int:
    failed = 0
    for name, holds in properties.items():
        held = _holds(holds, whole) and _holds(holds, streamed)
        failed += not held
        _mark(held, name, console)
    same = whole == streamed
    _mark(same, "streamed and not: the same answer", console)
    return failed + (not same)


def _holds(holds: Holds, answer: Answer) -> bool:
    try:
        return holds(answer)
    except (LookupError, ValueError, AttributeError):
        return False  # an answer without the call that the property looks into


def _mark(held: bool, name: str, console: Console) -> None:
    console.print(f"  {'[green]✓' if held else '[red]✗'}[/] {name}")


def closers(model: Path) -> dict[str, float]:
    """Token ids from the model directory's tokenizer.json."""
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = dict(tokenizer["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    return {str(ids[text]): bias for text, bias in CLOSERS.items() if text in ids}


def _shown(request: dict[str, Any]) -> str:
    tools = ", ".join(tool["function"]["name"] for tool in request["tools"])
    rest = {k: v for k, v in request.items() if k not in ("messages", "tools")}
    return f"{request['messages'][-1]['content']!r} tools=[{tools}] {json.dumps(rest)}"


def _say_how_to_call(stack: Stack, console: Console) -> None:
    announce(stack, console)
    key = repr(stack.master_key) if stack.key_was_made else 'os.environ["TOOLGATE_MASTER_KEY"]'
    console.print(
        f"""
from openai import OpenAI
client = OpenAI(base_url="{stack.url}/v1", api_key={key})
client.chat.completions.create(model="{stack.model}", messages=[…], tools=[…])

Ctrl-C ends all of it."""
    )
