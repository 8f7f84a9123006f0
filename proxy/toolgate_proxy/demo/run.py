"""`toolgate demo`: starts the stack, and runs six cases and a tool loop with the OpenAI SDK.

Each response is shown next to the unconstrained output of the same model for the same prompt.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI
from rich.console import Console
from rich.markup import escape

from ..stack.announcement import announce
from ..stack.serve import run
from ..stack.stack import Stack, StackOptions
from . import tool_loop
from .cases import ChoiceOutput, Property, cases
from .model import is_shipped
from .unconstrained import unconstrained_output

MAX_TOKENS = 400
SEED = 7
UNCONSTRAINED_LENGTH = 240
"""Maximum number of characters shown of the unconstrained output."""

# All tokens of a random model are equally likely, so it rarely ends a string or a response. This
# bias makes tokens that end something more likely. It can't make the model emit a masked token.
CLOSERS = {"</think>": 6.0, "<|im_end|>": 7.5, '"': 9.0, "}": 7.5, '"}': 8.0, '",': 8.0, '"]': 8.0}


def demo(options: StackOptions, *, once: bool) -> int:
    """Returns the exit status: 0 if all outputs have all properties, otherwise 1."""

    def show(stack: Stack, console: Console) -> int:
        failed = _run_cases(stack, options, console)
        if failed:
            console.print(f"[red]✗ {failed} properties are violated[/]")
            return 1
        correct = ", and all responses are correct" if is_shipped(options.model) else ""
        console.print(f"[green]✓ streamed and complete responses have all properties{correct}[/]")
        if not once:
            _print_usage(stack, console)
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
        console.print(
            "[dim]Unknown model, treated as random: temperature 1.0, with a bias for tokens that "
            "end strings, objects and responses."
        )
    failed = 0
    for case in cases():
        console.rule(f"[bold]{escape(case.title)}")
        console.print(f"[dim]{escape(_summary(case.request))}")
        complete = _collect(client, {**common, **case.request})
        streamed = _stream(client, {**common, **case.request}, console)
        _print_unconstrained(stack, {**common, **case.request}, console)
        correctness = case.correctness if understands else {}
        failed += _count_violated({**case.properties, **correctness}, complete, streamed, console)
    if understands:
        failed += _run_loop(stack, client, common, console)
    return failed


def _run_loop(stack: Stack, client: OpenAI, common: dict[str, Any], console: Console) -> int:
    console.rule("[bold]a tool loop: calls, their results, and a response that uses the results")
    request, content = tool_loop.run(client, common)
    for message in request["messages"][1:]:
        for call in message.get("tool_calls", []):
            function = call["function"]
            console.print(f"[cyan]→ {function['name']} {escape(function['arguments'])}")
        if message["role"] == "tool":
            console.print(f"[dim]← {escape(message['content'])}")
    console.print(escape(content))
    _print_unconstrained(stack, {**common, **request}, console)
    satisfied = tool_loop.uses_results(content)
    _print_property(satisfied, "the response uses both results", console)
    return not satisfied


def _print_unconstrained(stack: Stack, request: dict[str, Any], console: Console) -> None:
    try:
        text = unconstrained_output(stack.backend_url, stack.backend_key, stack.model, request)
    except httpx.HTTPError as error:  # the properties do not depend on this request
        text = f"(request failed: {type(error).__name__})"
    line = " ".join(text.split())
    if len(line) > UNCONSTRAINED_LENGTH:
        line = f"{line[:UNCONSTRAINED_LENGTH]} …"
    console.print(f"[dim]unconstrained output: {escape(line)}")


def _collect(client: OpenAI, request: dict[str, Any]) -> ChoiceOutput:
    choice = client.chat.completions.create(**request).choices[0]
    message = choice.message
    return ChoiceOutput(
        content=message.content or None,
        reasoning=getattr(message, "reasoning_content", None),
        calls=[(c.function.name, c.function.arguments) for c in message.tool_calls or []],
        finish_reason=choice.finish_reason,
    )


def _stream(client: OpenAI, request: dict[str, Any], console: Console) -> ChoiceOutput:
    """Prints the deltas as they arrive."""
    output = ChoiceOutput()
    for chunk in client.chat.completions.create(**request, stream=True):
        for choice in chunk.choices:
            delta = choice.delta
            reasoning = getattr(delta, "reasoning_content", None)
            if reasoning:
                output.reasoning = (output.reasoning or "") + reasoning
                console.print(f"[dim italic]{escape(reasoning)}", end="")
            if delta.content:
                output.content = (output.content or "") + delta.content
                console.print(escape(delta.content), end="")
            for call in delta.tool_calls or []:
                if call.function.name:
                    output.calls.append((call.function.name, ""))
                    console.print(f"\n[cyan]→ {call.function.name}[/] ", end="")
                name, arguments = output.calls[call.index]
                output.calls[call.index] = (name, arguments + (call.function.arguments or ""))
                console.print(f"[cyan]{escape(call.function.arguments or '')}", end="")
            output.finish_reason = choice.finish_reason or output.finish_reason
    console.print(f"\n[dim]finish_reason: {output.finish_reason}")
    return output


def _count_violated(
    properties: dict[str, Property],
    complete: ChoiceOutput,
    streamed: ChoiceOutput,
    console: Console,
) -> int:
    violated = 0
    for name, has_property in properties.items():
        satisfied = _satisfies(complete, has_property) and _satisfies(streamed, has_property)
        violated += not satisfied
        _print_property(satisfied, name, console)
    same = complete == streamed
    _print_property(same, "the streamed and the complete response are equal", console)
    return violated + (not same)


def _satisfies(output: ChoiceOutput, has_property: Property) -> bool:
    try:
        return has_property(output)
    except (LookupError, ValueError, AttributeError):
        return False  # the output has no call with the arguments that the property reads


def _print_property(satisfied: bool, name: str, console: Console) -> None:
    console.print(f"  {'[green]✓' if satisfied else '[red]✗'}[/] {name}")


def closers(model: Path) -> dict[str, float]:
    """A `logit_bias` for tokens that end strings, objects and responses. Their ids are read from
    the model directory's tokenizer.json."""
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = dict(tokenizer["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    return {str(ids[text]): bias for text, bias in CLOSERS.items() if text in ids}


def _summary(request: dict[str, Any]) -> str:
    tools = ", ".join(tool["function"]["name"] for tool in request["tools"])
    rest = {k: v for k, v in request.items() if k not in ("messages", "tools")}
    return f"{request['messages'][-1]['content']!r} tools=[{tools}] {json.dumps(rest)}"


def _print_usage(stack: Stack, console: Console) -> None:
    announce(stack, console)
    from_environment = 'os.environ["TOOLGATE_MASTER_KEY"]'
    key = f'open("{stack.key_file}").read().strip()' if stack.key_file else from_environment
    console.print(
        f"""
from openai import OpenAI
client = OpenAI(base_url="{stack.url}/v1", api_key={key})
client.chat.completions.create(model="{stack.model}", messages=[…], tools=[…])

Press Ctrl-C to stop everything."""
    )
