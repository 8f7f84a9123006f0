"""Shortens a conversation: edits clear the results of old calls and the reasoning of old turns, and
truncation drops the oldest turns.

Edits clear only the content of messages. A call stays with its result, and each message stays in
its place, so that errors name it as the client sent it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.context_edits import AppliedEdit, ClearThinking, ClearToolUses, ContextEdit
from toolgate_core.errors import ContextLengthExceeded
from toolgate_core.text_size import BYTES_PER_TOKEN, text_bytes
from toolgate_core.toolset import definitions

CLEARED = "[Old tool result cleared to save context]"
NO_ARGUMENTS = "{}"
Message = dict[str, Any]
Messages = tuple[Message, ...]
Count = Callable[[ChatRequest], Awaitable[int]]
"""Returns the tokens of a prompt, or raises ContextLengthExceeded."""


async def edited(request: ChatRequest, count: Count, context: int) -> ChatRequest:
    """Return the request with its edits applied. `context`: the model's, in tokens. The same
    conversation is always edited in the same way. Raise ToolgateError if `count` does."""
    pending = request.shortening.edits
    prompt = _Prompt(_with(request, edits=()), count)
    for edit in pending:
        prompt = await _applied(edit, prompt, context)
    return prompt.request


def _with(request: ChatRequest, **changes: Any) -> ChatRequest:
    return replace(request, shortening=replace(request.shortening, **changes))


class _Prompt:
    """A prompt, whose tokens are counted when they are needed."""

    def __init__(self, request: ChatRequest, count: Count) -> None:
        self.request = request
        self.count = count
        self._counted = False
        self._tokens: int | None = None

    async def tokens(self) -> int | None:
        """Return their number; None if it exceeds the context."""
        if not self._counted:
            with suppress(ContextLengthExceeded):
                self._tokens = await self.count(self.request)
            self._counted = True
        return self._tokens


async def _applied(edit: ContextEdit, prompt: _Prompt, context: int) -> _Prompt:
    """Return the prompt after an edit: the same one if the edit does not apply."""
    request = prompt.request
    if isinstance(edit, ClearThinking):
        messages, cleared = without_old_reasoning(request.messages, edit)
    else:
        messages, cleared = without_old_results(request.messages, edit)
    if not cleared or not await _is_due(edit, prompt, context):
        return prompt
    shorter = _Prompt(replace(request, messages=messages), prompt.count)
    saved = await _saved(prompt, shorter)
    if isinstance(edit, ClearToolUses) and saved < edit.at_least:
        return prompt
    applied = (*request.shortening.applied, AppliedEdit(edit, cleared, saved))
    shorter.request = _with(shorter.request, applied=applied)
    return shorter


async def _is_due(edit: ContextEdit, prompt: _Prompt, context: int) -> bool:
    """Return whether the trigger of the edit is reached. A prompt that leaves no room for the
    response reaches each trigger, because it would be refused."""
    if isinstance(edit, ClearThinking):
        return True
    if edit.unit == "tool_uses" and len(_uses(prompt.request.messages)) > edit.trigger:
        return True
    tokens = await prompt.tokens()
    if tokens is None or tokens + (prompt.request.sampling.max_tokens or 1) > context:
        return True
    return edit.unit == "input_tokens" and tokens > edit.trigger


async def _saved(before: _Prompt, after: _Prompt) -> int:
    """Return how many tokens shorter the prompt is: an estimate if one of the two can't be
    counted."""
    longer, shorter = await before.tokens(), await after.tokens()
    if longer is not None and shorter is not None:
        return max(longer - shorter, 0)
    fewer = text_bytes(before.request.messages) - text_bytes(after.request.messages)
    return fewer // BYTES_PER_TOKEN


def without_old_results(messages: Messages, edit: ClearToolUses) -> tuple[Messages, int]:
    """Return the messages without the results of old calls, and the number of these calls."""
    uses = _uses(messages)
    old = uses[: max(len(uses) - edit.keep, 0)]
    old = [use for use in old if use.name not in edit.excluded]
    if not old:
        return messages, 0
    results = {at for use in old for at in use.results}
    calls: dict[int, set[int]] = {}
    for use in old:
        if _clears_arguments(edit, use.name):
            calls.setdefault(use.message, set()).add(use.call)
    kept = (
        _without_result(message)
        if at in results
        else _without_arguments(message, calls.get(at, set()))
        for at, message in enumerate(messages)
    )
    return tuple(kept), len(old)


def without_old_reasoning(messages: Messages, edit: ClearThinking) -> tuple[Messages, int]:
    """Return the messages without the reasoning of old turns, and the number of these turns."""
    turns = _turns(messages)
    old = [] if edit.keep is None else turns[: max(len(turns) - edit.keep, 0)]
    thinking = [turn for turn in old if any(_has_reasoning(messages[at]) for at in turn)]
    places = {at for turn in thinking for at in turn}
    if not places:
        return messages, 0
    kept = (
        _without_reasoning(message) if at in places and _has_reasoning(message) else message
        for at, message in enumerate(messages)
    )
    return tuple(kept), len(thinking)


@dataclass
class _Use:
    """A call with its results."""

    name: str
    message: int
    """The place of the message with the call."""
    call: int
    """The place of the call in it."""
    results: list[int] = field(default_factory=list)
    """The places of the messages with its results."""


def _uses(messages: Sequence[Message]) -> list[_Use]:
    """Return the calls that have results, in their order. An id may be used again later."""
    uses: list[_Use] = []
    latest: dict[str, _Use] = {}
    for at, message in enumerate(messages):
        for number, call in enumerate(message.get("tool_calls") or ()):
            latest[call["id"]] = use = _Use(call["function"]["name"], at, number)
            uses.append(use)
        if message["role"] == "tool" and message["tool_call_id"] in latest:
            latest[message["tool_call_id"]].results.append(at)
    return [use for use in uses if use.results]


def _without_result(message: Message) -> Message:
    """Tools that the result defines can still be called, so the prompt keeps them."""
    defined = definitions(message)
    text = {"type": "text", "text": CLEARED}
    return {**message, "content": [text, *defined] if defined else CLEARED}


def _clears_arguments(edit: ClearToolUses, name: str) -> bool:
    return edit.inputs if isinstance(edit.inputs, bool) else name in edit.inputs


def _without_arguments(message: Message, calls: Collection[int]) -> Message:
    if not calls:
        return message
    kept = [
        {**call, "function": {**call["function"], "arguments": NO_ARGUMENTS}}
        if at in calls
        else call
        for at, call in enumerate(message["tool_calls"])
    ]
    return {**message, "tool_calls": kept}


def _turns(messages: Sequence[Message]) -> list[list[int]]:
    """Return the places of the messages of each turn of the assistant. It begins after a message of
    the user that does not follow the result of a call."""
    turns: list[list[int]] = []
    begins = True
    for at, message in enumerate(messages):
        if message["role"] == "user" and (at == 0 or messages[at - 1]["role"] != "tool"):
            begins = True
        elif message["role"] == "assistant":
            if begins:
                turns.append([])
            turns[-1].append(at)
            begins = False
    return turns


def _has_reasoning(message: Message) -> bool:
    return bool(message.get("reasoning_content"))


def _without_reasoning(message: Message) -> Message:
    kept = {name: value for name, value in message.items() if name != "reasoning_content"}
    if not kept.get("tool_calls") and kept.get("content") is None:
        kept["content"] = ""
    return kept


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
