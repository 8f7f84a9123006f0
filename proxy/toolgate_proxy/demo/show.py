"""Sends the request of a case, streamed and not, and prints the response and its properties."""

from __future__ import annotations

import json
from typing import Any

import httpx
from openai import OpenAI
from rich.console import Console
from rich.markup import escape

from ..stack.stack import Stack
from .properties import ChoiceOutput, Property, satisfies
from .unconstrained import unconstrained_output

UNCONSTRAINED_LENGTH = 240
"""Maximum number of characters shown of the unconstrained output."""


def summary(request: dict[str, Any]) -> str:
    tools = ", ".join(tool["function"]["name"] for tool in request["tools"])
    rest = {k: v for k, v in request.items() if k not in ("messages", "tools")}
    return f"{request['messages'][-1]['content']!r} tools=[{tools}] {json.dumps(rest)}"


def collect(client: OpenAI, request: dict[str, Any]) -> ChoiceOutput:
    choice = client.chat.completions.create(**request).choices[0]
    message = choice.message
    return ChoiceOutput(
        content=message.content or None,
        reasoning=getattr(message, "reasoning_content", None),
        calls=[(c.function.name, c.function.arguments) for c in message.tool_calls or []],
        finish_reason=choice.finish_reason,
    )


def stream(client: OpenAI, request: dict[str, Any], console: Console) -> ChoiceOutput:
    """Prints the deltas as they arrive, each part of the message with a label."""
    output = ChoiceOutput()
    shown = _Parts(console)
    for chunk in client.chat.completions.create(**request, stream=True):
        for choice in chunk.choices:
            delta = choice.delta
            reasoning = getattr(delta, "reasoning_content", None)
            if reasoning:
                output.reasoning = (output.reasoning or "") + reasoning
                shown.add("reasoning", reasoning, "dim italic")
            if delta.content:
                output.content = (output.content or "") + delta.content
                shown.add("content", delta.content, "")
            for call in delta.tool_calls or []:
                if call.function.name:
                    output.calls.append((call.function.name, ""))
                    shown.begin("call")
                    shown.add("call", f"{call.function.name} ", "cyan")
                name, arguments = output.calls[call.index]
                output.calls[call.index] = (name, arguments + (call.function.arguments or ""))
                shown.add("call", call.function.arguments or "", "cyan")
            output.finish_reason = choice.finish_reason or output.finish_reason
    shown.begin("finish_reason")
    shown.add("finish_reason", str(output.finish_reason), "dim")
    console.print()
    return output


class _Parts:
    """Prints parts of a message, each with its label on a line of its own."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._label: str | None = None

    def begin(self, label: str) -> None:
        if self._label is not None:
            self._console.print()
        self._label = label
        self._console.print(f"{label}: ", end="")

    def add(self, label: str, text: str, style: str) -> None:
        if label != self._label:
            self.begin(label)
        self._console.print(text, style=style, markup=False, end="")


def print_unconstrained(stack: Stack, request: dict[str, Any], console: Console) -> None:
    try:
        text = unconstrained_output(stack.backend_url, stack.backend_key, stack.model, request)
    except httpx.HTTPError as error:  # the properties do not depend on this request
        text = f"(request failed: {type(error).__name__})"
    line = " ".join(text.split())
    if len(line) > UNCONSTRAINED_LENGTH:
        line = f"{line[:UNCONSTRAINED_LENGTH]} …"
    console.print(f"[dim]unconstrained output: {escape(line)}")


def count_violated(
    properties: dict[str, Property],
    complete: ChoiceOutput,
    streamed: ChoiceOutput,
    console: Console,
) -> int:
    """Properties that are about something that neither output has are neither checked nor shown."""
    violated = 0
    for name, has_property in properties.items():
        about = [each for each in (complete, streamed) if has_property.applies(each)]
        if about:
            satisfied = all(satisfies(each, has_property) for each in about)
            violated += not satisfied
            print_property(satisfied, name, console)
    same = complete == streamed
    print_property(same, "the streamed and the complete response are equal", console)
    return violated + (not same)


def print_property(satisfied: bool, name: str, console: Console) -> None:
    console.print(f"  {'[green]✓' if satisfied else '[red]✗'}[/] {name}")
