"""Samples a tool at temperature 1, without enforcement and with it, and counts valid calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
from openai import OpenAI
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from toolgate_core.dialects.registry import DIALECTS

from ..stack.stack import Stack
from .hard_tool import REQUESTS, SAMPLES, SUMMARY, TOOL
from .unconstrained import unconstrained_outputs
from .verdict import Call, Problem, problem_of, read_calls, read_json

NUMBER = len(REQUESTS) * SAMPLES
"""Number of samples of each way."""
MAX_TOKENS = 300
BEGIN = '<tool_call>{"name":"'
"""How calls begin, without spaces, in the dialects whose raw text can be read: Hermes, Qwen3 …"""
SHOWN = 3
"""Maximum number of different problems that are shown of one request."""


@dataclass(frozen=True)
class Sample:
    text: str
    """The calls, as they are shown."""
    problem: Problem | None
    closed: bool = False
    """Whether the call was closed because max_tokens was reached."""


@dataclass(frozen=True)
class Samples:
    """All samples, by request."""

    alone: list[list[Sample]]
    enforced: list[list[Sample]]


def is_possible(stack: Stack) -> bool:
    """Raises httpx.HTTPError."""
    url = f"{stack.backend_url}/v1/toolgate/info"
    headers = {"authorization": f"Bearer {stack.backend_key}"}
    response = httpx.get(url, headers=headers, timeout=30, trust_env=False)
    response.raise_for_status()
    calls = DIALECTS[response.json()["dialect"]].calls
    return calls is not None and "".join(str(calls.call[0]).split()) == BEGIN


def sample(stack: Stack, client: OpenAI, common: dict[str, Any]) -> Samples:
    """Samples every request both ways. All requests of one way run at the same time."""
    requests = [
        {
            **common,
            "messages": [{"role": "user", "content": text}],
            "tools": [TOOL],
            "temperature": 1,
            "max_tokens": MAX_TOKENS,
            "n": SAMPLES,
            "tool_choice": "required",
            "reasoning_effort": "none",
        }
        for text in REQUESTS
    ]
    return Samples(
        alone=_each(lambda request: _alone(stack, request), requests),
        enforced=_each(lambda request: _enforced(client, request), requests),
    )


def show(samples: Samples, console: Console) -> int:
    """Prints the problems of each request and a table. Returns the number of invalid samples with
    enforcement."""
    console.print(f"[dim]{escape(SUMMARY)}")
    console.print(
        "[dim]A valid call has the form that the schema demands. Whether its values are right "
        "depends on the model."
    )
    for text, alone, enforced in zip(REQUESTS, samples.alone, samples.enforced, strict=True):
        console.print(f"\n[bold]{escape(text)}")
        for line in [*_problems("alone", alone), *_problems("Toolgate", enforced)]:
            _print(f"  [red]✗ {escape(line)}", console)
        for name, color, group in (("alone", "", alone), ("Toolgate", "green", enforced)):
            valid = [each for each in group if each.problem is None]
            if valid:
                count = f"{name} ({len(valid)} of {len(group)}):"
                mark = f"[{color}]✓[/]" if color else "✓"
                _print(f"  {mark} {count} [cyan]{escape(valid[0].text)}", console)
    console.print()
    console.print(_table(samples))
    console.print(summary(samples))
    return sum(each.problem is not None for group in samples.enforced for each in group)


def summary(samples: Samples) -> str:
    return f"alone {_valid(samples.alone)} valid · Toolgate {_valid(samples.enforced)} valid"


def _table(samples: Samples) -> Table:
    table = Table("", "valid calls", "notes")
    for name, groups in (("alone", samples.alone), ("Toolgate", samples.enforced)):
        problems = [each.problem for group in groups for each in group if each.problem]
        kinds = Counter(_category(problem) for problem in problems)
        closed = sum(each.closed for group in groups for each in group)
        notes = [f"{number} {kind}" for kind, number in kinds.most_common()]
        notes += [f"{closed} closed at {MAX_TOKENS} tokens"] if closed else []
        color = "red" if problems else "green"
        table.add_row(name, f"[{color}]{_valid(groups)}", escape(", ".join(notes)))
    return table


def _category(problem: Problem) -> str:
    if problem.place or problem.kind in ("required", "additionalProperties"):
        return "against the schema"
    return {"none": "no call", "unknown": "unknown tool"}.get(problem.kind, "not JSON")


def _valid(groups: Iterable[Sequence[Sample]]) -> str:
    every = [each for group in groups for each in group]
    return f"{sum(each.problem is None for each in every)}/{len(every)}"


def _problems(name: str, group: Sequence[Sample]) -> list[str]:
    """A line for each different problem, the most frequent first."""
    alike: dict[tuple[str, str], list[Problem]] = {}
    for each in group:
        if each.problem is not None:
            alike.setdefault((each.problem.place, each.problem.kind), []).append(each.problem)
    ordered = sorted(alike.values(), key=len, reverse=True)
    lines = [f"{name} ({len(same)} of {len(group)}): {same[0]}" for same in ordered[:SHOWN]]
    more = sum(len(same) for same in ordered[SHOWN:])
    return [*lines, f"{name} ({more} of {len(group)}): other problems"] if more else lines


def _print(line: str, console: Console) -> None:
    console.print(line, no_wrap=True, overflow="ellipsis")


def _each(
    ask: Callable[[dict[str, Any]], list[Sample]], requests: list[dict[str, Any]]
) -> list[list[Sample]]:
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(ask, requests))


def _alone(stack: Stack, request: dict[str, Any]) -> list[Sample]:
    found = []
    for text in unconstrained_outputs(stack.backend_url, stack.backend_key, stack.model, request):
        calls = read_calls(text)
        problem = calls if isinstance(calls, Problem) else problem_of(calls, TOOL)
        found.append(Sample(" ".join(text.split()), problem))
    return found


def _enforced(client: OpenAI, request: dict[str, Any]) -> list[Sample]:
    """A call that max_tokens would cut is closed, so that its arguments are valid."""
    body = {**request, "extra_body": {"toolgate": {"on_budget": "close"}}}
    found = []
    for choice in client.chat.completions.create(**body).choices:
        calls: list[Call] = []
        problem: Problem | None = None
        texts = []
        for call in choice.message.tool_calls or []:
            function = call.function
            texts.append(f"{function.name} {function.arguments}")
            arguments = read_json(function.arguments)
            if isinstance(arguments, Problem):
                problem = arguments
            calls.append(Call(function.name, arguments))
        note = getattr(choice, "toolgate", None) or {}
        closed = note.get("last_call") == "closed"
        found.append(Sample(" ".join(texts), problem or problem_of(calls, TOOL), closed))
    return found
