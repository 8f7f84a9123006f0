"""The clients of a constant load: streams, and what they receive."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx

from bench.support.backend_client import stream_events
from bench.support.gateways import KEY
from bench.throughput.targets import CHAT, IDENTIFIER, NUMBER, Target
from tests.support.schemas.judge import schema_violation

WARM_UP_SECONDS = 1.5
"""The streams start one after the other in the first half."""
CALL_START = "<tool_call>"
Events = list[tuple[float, bytes]]
"""Times and JSON of the events of a response."""
Calls = list[tuple[str, str]]
"""Names and arguments."""


@dataclass
class Seen:
    """What clients have seen of a target."""

    gaps: list[float] = field(default_factory=list)
    """Seconds between consecutive events with tokens, of all streams."""
    received: int = 0
    """Tokens in the window."""
    responses: int = 0
    """Complete ones, also before the window. The following counts are theirs."""
    tokens: int = 0
    calls: int = 0
    truncated: int = 0
    """Responses that ended at the maximum number of tokens, within a call or before it."""
    invalid: list[str] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        self.gaps += other.gaps
        self.received += other.received
        self.responses += other.responses
        self.tokens += other.tokens
        self.calls += other.calls
        self.truncated += other.truncated
        self.invalid += other.invalid


def drive(target: Target, streams: int, start: float, end: float) -> Seen:
    """Runs in a client's process. `start` and `end` of the window are times of `monotonic`."""
    return asyncio.run(_drive(target, streams, start, end))


async def _drive(target: Target, streams: int, start: float, end: float) -> Seen:
    begun: list[Events] = []
    complete: list[Events] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=streams)

    async def one(http: httpx.AsyncClient, delay: float) -> None:
        await asyncio.sleep(delay)
        while True:
            events: Events = []
            begun.append(events)
            await send(http, target, events)
            complete.append(events)

    async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False) as http:
        step = max(0.0, start - WARM_UP_SECONDS / 2 - time.monotonic()) / streams
        running = asyncio.gather(*(one(http, step * number) for number in range(streams)))
        with suppress(TimeoutError):
            await asyncio.wait_for(running, max(0.0, end - time.monotonic()))
    seen = Seen()
    for events in begun:
        inside = [
            (at, line) for at, line in events if start <= at <= end and target.token_mark in line
        ]
        seen.gaps += [later - earlier for (earlier, _), (later, _) in pairwise(inside)]
        seen.received += sum(token_count(json.loads(line)) for _, line in inside)
    for events in complete:
        judge(target, [json.loads(line) for _, line in events], seen)
    return seen


async def send(http: httpx.AsyncClient, target: Target, received: Events) -> None:
    """Add the events of one response to `received`.

    Raises RuntimeError with the response if it is an error.
    """
    identifier = uuid.uuid4().hex
    body = target.body.replace(NUMBER, identifier[:8]).replace(IDENTIFIER, identifier)
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    async for event in stream_events(http, target.url + target.path, body.encode(), headers):
        received.append((time.monotonic(), event))


def token_count(event: Any) -> int:
    """Number of tokens of an event of either API."""
    if "choices" in event:
        return sum(len(choice.get("token_ids") or ()) for choice in event["choices"])
    return len(event.get("ids", ()))


def judge(target: Target, events: Sequence[Any], seen: Seen) -> None:
    """Count a complete response, and validate its calls."""
    error = next((event for event in events if "error" in event), None)
    if error is not None:
        raise RuntimeError(str(error)[:300])
    seen.responses += 1
    seen.tokens += sum(map(token_count, events))
    if not target.enforced:
        return
    calls, reason = (chat_calls if target.server in CHAT else backend_calls)(events)
    if reason == "length":
        seen.truncated += 1
        calls = calls[:-1]
    elif not calls:
        seen.invalid.append(f"no call, finish reason {reason}")
    for name, arguments in calls:
        seen.calls += 1
        if (what := violation(target, name, arguments)) is not None:
            seen.invalid.append(f"{name}: {what}")


def violation(target: Target, name: str, arguments: str) -> str | None:
    if name not in target.schemas:
        return "no such tool"
    try:
        return schema_violation(target.schemas[name], json.loads(arguments))
    except ValueError as error:
        return f"{error}: {arguments[:200]}"


def chat_calls(events: Sequence[Any]) -> tuple[Calls, str]:
    """The calls and the finish reason."""
    calls: dict[int, list[str]] = {}
    reason = ""
    for choice in (choice for event in events for choice in event["choices"]):
        reason = choice["finish_reason"] or reason
        for call in choice["delta"].get("tool_calls") or ():
            texts = calls.setdefault(call["index"], ["", ""])
            texts[0] += call["function"].get("name") or ""
            texts[1] += call["function"].get("arguments") or ""
    return [(name, arguments) for name, arguments in calls.values()], reason


def backend_calls(events: Sequence[Any]) -> tuple[Calls, str]:
    """The calls, which have Qwen3's form, and the finish reason."""
    text, reason = "", ""
    for event in events:
        if event["event"] == "tokens":
            text += "".join(event["texts"])
        if event["event"] == "end":
            text, reason = text + event["text"], event["finish_reason"]
    calls = []
    for part in text.split(CALL_START)[1:]:
        try:
            call, _ = json.JSONDecoder().raw_decode(part.strip())
            calls.append((str(call["name"]), json.dumps(call["arguments"])))
        except (ValueError, KeyError) as error:
            calls.append(("?", f"{error}: {part}"))
    return calls, reason
