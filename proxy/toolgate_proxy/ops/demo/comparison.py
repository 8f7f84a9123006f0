"""Samples a tool at temperature 1, without and with enforcement, and counts valid calls.

The tool has the keywords with which models fail most often: an enumeration, a pattern, a date-time,
an array of an exact length, and an object that may be null.
"""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from openai import OpenAI
from rich.console import Console
from rich.markup import escape

from ..stack.stack import Stack
from .cases import REQUESTS, TICKET, output_of, problem_of

SAMPLES = 10  # of each request
NUMBER = len(REQUESTS) * SAMPLES
CUT = "max_tokens ended the response"

Samples = dict[str, list[list[tuple[str, str]]]]
"""Of each request, `alone` and with `Toolgate`: the output, and where its calls break, or ""."""


def unconstrained(stack: Stack, request: dict[str, Any]) -> tuple[str, str]:
    """Return what the model generates for the same prompt without masks, with the marks of its
    dialect, and where it breaks the request, or "". Raise httpx.HTTPError if there is no output."""
    response = httpx.post(
        f"{stack.url}/toolgate/unconstrained",
        json={"model": stack.model, **request},
        headers={"authorization": f"Bearer {stack.master_key}"},
        timeout=120,
        trust_env=False,
    )
    lines = response.raise_for_status().text.split("\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    text = "".join(event.get("text", "") for event in events)
    judgement = events[-1].get("judgement") if events else None
    if judgement is None:
        raise httpx.ReadError("The stream ended with an error.")
    for broken in judgement["breaks"]:
        value = text[broken["begin"] : broken["end"]] if broken["pointer"] else ""
        return text, f"{value}: {broken['message']}".removeprefix(": ")
    return text, CUT if judgement["cut"] else ""


def sample(stack: Stack, client: OpenAI, common: dict[str, Any]) -> Samples:
    """Sample every request both ways. All requests of one way run at the same time."""
    common = common | {"temperature": 1, "max_tokens": 300, "n": SAMPLES, "tools": [TICKET]}
    common |= {"tool_choice": "required", "reasoning_effort": "none"}
    requests = [common | {"messages": [{"role": "user", "content": text}]} for text in REQUESTS]

    def alone(request: dict[str, Any]) -> list[tuple[str, str]]:
        one = {name: value for name, value in request.items() if name != "n"}
        seeds = range(request["seed"], request["seed"] + SAMPLES)
        outputs = [unconstrained(stack, one | {"seed": seed}) for seed in seeds]
        return [(" ".join(text.split()), problem) for text, problem in outputs]

    def enforced(request: dict[str, Any]) -> list[tuple[str, str]]:
        outputs = []
        for choice in client.chat.completions.create(**request).choices:
            calls = output_of(choice).calls
            problem = problem_of(calls, [TICKET]) if calls else "there is no call"
            problem = CUT if choice.finish_reason == "length" else problem
            outputs.append((" ".join(map(" ".join, calls)), problem))
        return outputs

    with ThreadPoolExecutor(len(requests)) as pool:
        ways = {"alone": pool.map(alone, requests), "Toolgate": pool.map(enforced, requests)}
        return {name: list(groups) for name, groups in ways.items()}


def show(samples: Samples, console: Console) -> int:
    """Print what each request got. Return the number of invalid samples with enforcement, of
    which a call that says that it is cut is none."""
    console.print(
        "[dim]open_ticket: code (a pattern), priority (an enum), due (a date-time), 2 labels, "
        "contact or null"
    )
    for at, text in enumerate(REQUESTS):
        console.print(f"\n[bold]{escape(text)}")
        for name, groups in samples.items():
            for problem, number in Counter(problem for _, problem in groups[at]).most_common():
                example = problem or next(answer for answer, each in groups[at] if not each)
                mark, color = ("[red]✗", "red") if problem else ("[green]✓", "cyan")
                if problem == CUT:
                    mark, color = "[yellow]…", "yellow"
                line = f"  {mark}[/] {name} ({number} of {SAMPLES}): [{color}]{escape(example)}"
                console.print(line, no_wrap=True, overflow="ellipsis")
    console.print(f"\n{summary(samples)}")
    return sum(problem not in ("", CUT) for group in samples["Toolgate"] for _, problem in group)


def summary(samples: Samples) -> str:
    parts = []
    for name, groups in samples.items():
        problems = Counter(problem for group in groups for _, problem in group)
        cut = f", {problems[CUT]} cut" if problems[CUT] else ""
        parts.append(f"{name} {problems['']}/{NUMBER} valid{cut}")
    return " · ".join(parts)
