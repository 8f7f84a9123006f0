"""Requests with 10,000 tools, of which all but 10 are deferred, beside the same requests with those
10 only: first token, prompt tokens, and the memory of the gateway and of the backend.

The tools are BFCL's, each under many names. The pairs are interleaved.
"""

import json
import statistics
import time
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import httpx
import psutil

from bench.support.contenders import Server
from bench.support.ratios import ratio
from bench.support.tools import bfcl_tools, renamed
from tests.support.markdown import table

LISTED, TOOLS = 10, 10_000
WARM = 5
ROWS = 10
"""Times at which the memory is read."""
BACKEND = "toolgate_backend"


@dataclass(frozen=True)
class Answer:
    first: float
    """Seconds until the first event."""
    prompt: int
    """Tokens of the prompt."""


def measured(server: Server, requests: int) -> str:
    """Return the report of so many pairs of requests."""
    tools = _tools()
    listed = tools[:LISTED]
    many = [*listed, *({**tool, "defer_loading": True} for tool in tools[LISTED:])]
    model = server.model_name()
    heads = [json.dumps({"model": model, "tools": each})[1:] for each in (listed, many)]
    pairs: list[list[Answer]] = []
    memory: list[list[object]] = []
    headers = {"authorization": f"Bearer {server.key}", "content-type": "application/json"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=300, trust_env=False) as http:
        for number in range(-WARM, requests):
            order = (0, 1) if number % 2 else (1, 0)
            answers = {at: _answer(http, heads[at], number) for at in order}
            if number >= 0:
                pairs.append([answers[0], answers[1]])
            if number % max(1, requests // ROWS) == 0:
                memory.append([2 * number, *_memory(server)])
    few, more = zip(*pairs, strict=True)
    seconds = [[each.first for each in answers] for answers in (few, more)]
    prompts = [statistics.median(each.prompt for each in answers) for answers in (few, more)]
    rows: list[list[object]] = [
        [
            "first token, ms",
            *(f"{1e3 * statistics.median(each):.1f}" for each in seconds),
            ratio(seconds[1], seconds[0]),
        ],
        ["prompt tokens", *prompts, f"{prompts[1] / prompts[0]:.3f}"],
    ]
    compared = table(["", f"{LISTED} tools", f"{TOOLS:,} tools", "ratio"], rows)
    size = len(heads[1]) / 1e6
    grown = table(["requests", "gateway, MB", "backend, MB"], memory)
    return f"{compared}\n\n{requests:,} pairs; bodies of {size:.1f} MB.\n\n{grown}"


def _tools() -> list[dict[str, Any]]:
    found = []
    for number, tool in enumerate(islice(cycle(bfcl_tools()), TOOLS)):
        function = renamed(tool, str(number))["function"]
        del function["strict"]
        function["description"] = tool["function"].get("description", "")
        found.append({"type": "function", "function": function})
    return found


def _answer(http: httpx.Client, head: str, number: int) -> Answer:
    rest: dict[str, Any] = {
        "messages": [{"role": "user", "content": f"Question {number}"}],
        "max_tokens": 4,
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    content = (json.dumps(rest)[:-1] + ", " + head).encode()
    began = time.monotonic()
    first, prompt = 0.0, 0
    with http.stream("POST", "/v1/chat/completions", content=content) as response:
        if response.status_code != 200:
            raise RuntimeError(response.read().decode())
        for line in response.iter_lines():
            if line.startswith("data: {"):
                first = first or time.monotonic() - began
                usage = json.loads(line[6:]).get("usage")
                prompt = usage["prompt_tokens"] if usage else prompt
    return Answer(first, prompt)


def _memory(server: Server) -> tuple[int, int]:
    """Return the resident memory of the gateway's processes and of the backend's, in MB."""
    found = [0, 0]
    for child in psutil.Process(server.process.pid).children():
        command = " ".join(child.cmdline())
        if "toolgate" in command:
            all_of = [child, *child.children(recursive=True)]
            found[BACKEND in command] += sum(each.memory_info().rss for each in all_of)
    return found[0] // 10**6, found[1] // 10**6
