"""`toolgate demo`: starts the stack, and runs six cases, a tool loop and a comparison.

Each response is shown next to the unconstrained output of the same model for the same prompt. The
comparison samples a tool with a demanding schema both ways.
"""

from __future__ import annotations

import json
import shlex
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState
from rich.console import Console
from rich.markup import escape

from ..serve import KEY_VARIABLE, announce, run
from ..stack.stack import Stack, StackOptions
from . import cases, comparison
from .cases import TWO_CITIES, WEATHER, Case, ChoiceOutput, output_of
from .model import closers, is_shipped

KNOWN = "The demo model has 3.8 million parameters, and was trained for calls, not for long texts."
UNKNOWN = "Unknown model, treated as random: temperature 1.0, a bias for tokens that end texts."


def demo(options: StackOptions, *, once: bool) -> int:
    """Return the exit status: 0 if all outputs have all properties, otherwise 1."""

    def show(stack: Stack, console: Console) -> int:
        failed = Demo(stack, options.model, console).run()
        if failed:
            console.print(f"[red]✗ {failed} properties are violated[/]")
            return 1
        correct = ", and all answers to the cases are correct" if is_shipped(options.model) else ""
        console.print(f"[green]✓ streamed and complete responses have all properties{correct}[/]")
        if once:
            console.print("[dim]To send your own requests: toolgate demo, or toolgate serve MODEL")
            return 0
        for title, text in (("Environment", environment(stack)), ("Python", python(stack))):
            console.print(f"\n[bold]{title}")
            console.print(text, markup=False, soft_wrap=True)
        console.print("\n[bold]Shell")
        announce(stack, console)
        console.print("Press Ctrl-C to stop everything.")
        stack.watch()
        return 0

    return run(options, show)


class Demo:
    """Runs and prints the parts of the demo. Each returns the number of violated properties."""

    def __init__(self, stack: Stack, model: str, console: Console) -> None:
        self._stack, self._console = stack, console
        self._client = OpenAI(base_url=f"{stack.url}/v1", api_key=stack.master_key, max_retries=0)
        self._understands = is_shipped(model)
        self._common: dict[str, Any] = {"model": stack.model, "max_tokens": 400, "seed": 7}
        self._common["temperature"] = 0 if self._understands else 1.0
        if not self._understands:
            self._common["logit_bias"] = closers(Path(model))

    def run(self) -> int:
        self._console.print(f"[dim]{KNOWN if self._understands else UNKNOWN}")
        failed = 0
        for number, (title, variants) in enumerate(groupby(cases.cases(), lambda it: it.title), 1):
            self._console.rule(f"[bold]{number}. {escape(title)}")
            failed += sum(map(self.case, variants))
        return failed + (self.loop() if self._understands else 0) + self.compare()

    def case(self, case: Case) -> int:
        request = self._common | case.request
        rest = {k: v for k, v in case.request.items() if k not in ("messages", "tools")}
        asked = f"{request['messages'][-1]['content']} {json.dumps(rest)}"
        self._console.print(f"[dim]{escape(asked)}")
        state = ChatCompletionStreamState()
        for chunk in self._client.chat.completions.create(**request, stream=True):
            state.handle_chunk(chunk)
        streamed = output_of(state.current_completion_snapshot.choices[0])
        complete = self._ask(request)
        self._print(streamed, request)
        properties = cases.properties(request, streamed)
        if self._understands:
            properties["the right answer"] = all(properties.values()) and case.understood(streamed)
        properties["the streamed and the complete response are equal"] = streamed == complete
        return self._count(properties)

    def loop(self) -> int:
        """Run a conversation of two turns: the model's calls, then its response to the results."""
        self._console.rule("[bold]A tool loop: calls, their results, and a response to these")
        messages: list[Any] = [{"role": "user", "content": TWO_CITIES}]
        request = self._common | {"messages": messages, "tools": [WEATHER]} | cases.NO_THINKING
        message: Any = self._client.chat.completions.create(**request).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls or []:
            result = json.dumps(cases.RESULTS.get(json.loads(call.function.arguments)["city"]))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            self._console.print(f"call: [cyan]{escape(call.function.arguments)}")
            self._console.print(f"[dim]result: {escape(result)}")
        answer = self._ask(request)
        self._print(answer, request)
        return self._count({"the response uses both results": uses_results(answer.content or "")})

    def compare(self) -> int:
        self._console.rule(f"[bold]{comparison.NUMBER} samples at temperature 1")
        try:
            samples = comparison.sample(self._stack, self._client, self._common)
            return comparison.show(samples, self._console)
        except httpx.HTTPError as error:  # the properties do not depend on this output
            self._console.print(f"[dim]Skipped: a request failed ({type(error).__name__}).")
        return 0

    def _ask(self, request: dict[str, Any]) -> ChoiceOutput:
        return output_of(self._client.chat.completions.create(**request).choices[0])

    def _count(self, properties: dict[str, bool]) -> int:
        for name, holds in properties.items():
            self._console.print(f"  {'[green]✓' if holds else '[red]✗'}[/] {name}")
        return len(properties) - sum(properties.values())

    def _print(self, output: ChoiceOutput, request: dict[str, Any]) -> None:
        """Print the output, and what the model writes without enforcement."""
        calls = [("call", f"{name} {arguments}") for name, arguments in output.calls]
        for label, text in (("reasoning", output.reasoning), ("content", output.content), *calls):
            if text:
                self._console.print(f"{label}: [cyan]{escape(text)}")
        self._console.print(f"finish_reason: {output.finish_reason}")
        try:
            text, problem = comparison.unconstrained(self._stack, request)
        except httpx.HTTPError as error:
            text, problem = f"(request failed: {type(error).__name__})", ""
        text = " ".join(text.split())
        more = " …" if len(text) > 240 else ""
        self._console.print(f"[dim]unconstrained output: {escape(text[:240])}{more}")
        if problem:
            self._console.print(f"  [red]✗[/] without enforcement: [red]{escape(problem)}")


def uses_results(content: str) -> bool:
    keys = ("city", "temperature", "sky")
    needed = [str(result[key]) for result in cases.RESULTS.values() for key in keys]
    return all(text in content for text in needed) and content.rstrip().endswith(".")


def environment(stack: Stack) -> str:
    """Return lines for a shell. Clients of OpenAI read these variables."""
    key = f'"$(cat {shlex.quote(str(stack.key_file))})"' if stack.key_file else f'"${KEY_VARIABLE}"'
    return f"export OPENAI_BASE_URL={stack.url}/v1\nexport OPENAI_API_KEY={key}"


def python(stack: Stack) -> str:
    """Return a program that needs only the OpenAI SDK."""
    key = f'os.environ["{KEY_VARIABLE}"]'
    if stack.key_file:
        key = f"open({str(stack.key_file)!r}).read().strip()"
    return f"""import os
from openai import OpenAI
client = OpenAI(base_url="{stack.url}/v1", api_key={key})
response = client.chat.completions.create(
    model="{stack.model}",
    messages=[{{"role": "user", "content": "{TWO_CITIES}"}}],
    tools=[{WEATHER!r}],
    tool_choice="required",
    reasoning_effort="none",
)
print(response.choices[0].message.tool_calls)"""
