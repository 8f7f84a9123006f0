"""Dropping of the oldest turns of a conversation that exceeds the context
(`truncation: "auto"` of the Responses API)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ContextLengthExceeded
from toolgate_core.toolset import definitions

ROOM = 1024
"""Tokens left for a response whose length the request does not limit; at most a quarter of the
context."""
HEAD = ("system", "developer")


async def fitted(
    request: ChatRequest, count: Callable[[ChatRequest], Awaitable[int]], context: int
) -> ChatRequest:
    """The request without as many of its oldest turns as necessary. `count` returns the tokens of a
    prompt, or raises ContextLengthExceeded. `context`: in tokens. A conversation whose newest part
    exceeds the context keeps only that part."""
    most = context - (request.sampling.max_tokens or min(ROOM, context // 4))
    units = droppable(request.messages)
    low, high = 0, len(units)
    while low < high:
        middle = (low + high) // 2
        try:
            is_short = await count(_without(request, units[:middle])) <= most
        except ContextLengthExceeded:
            is_short = False
        low, high = (low, middle) if is_short else (middle + 1, high)
    return _without(request, units[:low])


def droppable(messages: Sequence[dict[str, Any]]) -> list[list[int]]:
    """The indexes of messages that are dropped together, the first ones first: whole turns except
    the last one, and of that one the messages after the user's, except the newest. A call stays
    with its results. The first system messages are not among them, and neither are turns that
    define tools, which can still be called."""
    heads = takewhile(lambda message: message["role"] in HEAD, messages)
    begin = sum(1 for _ in heads)
    users = [at for at, message in enumerate(messages) if message["role"] == "user"]
    last = users[-1] if users else begin - 1
    turns = _divided(messages, range(begin, last), lambda role: role == "user")
    steps = _divided(messages, range(last + 1, len(messages)), lambda role: role != "tool")
    return [
        unit for unit in (*turns, *steps[:-1]) if not any(definitions(messages[at]) for at in unit)
    ]


def _divided(
    messages: Sequence[dict[str, Any]], span: range, begins: Callable[[str], bool]
) -> list[list[int]]:
    """The indexes in groups. `begins`: whether a message of a role begins a group."""
    groups: list[list[int]] = []
    for at in span:
        if begins(messages[at]["role"]) or not groups:
            groups.append([])
        groups[-1].append(at)
    return groups


def _without(request: ChatRequest, units: Sequence[Sequence[int]]) -> ChatRequest:
    dropped = {at for unit in units for at in unit}
    kept = [at for at in range(len(request.messages)) if at not in dropped]
    paths = request.message_paths
    return replace(
        request,
        messages=tuple(request.messages[at] for at in kept),
        message_paths=tuple(paths[at] for at in kept) if paths else paths,
    )
