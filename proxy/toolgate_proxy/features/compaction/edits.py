"""Edits that shorten a conversation before its prompt is rendered: they clear the results of old
calls and the reasoning of old turns. The client keeps the whole conversation.

Edits clear only the content of messages. A call stays with its result, and each message stays in
its place, so that errors name it as the client sent it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolgate_core.errors import ContextLengthExceeded
from toolgate_core.text_size import BYTES_PER_TOKEN, text_bytes

from ...chat.preparation import Count
from ...request.chat_request import ChatRequest
from ...request.toolset import definitions

CLEARED = "[Old tool result cleared to save context]"
NO_ARGUMENTS = "{}"
Message = dict[str, Any]
Messages = tuple[Message, ...]


@dataclass(frozen=True)
class ClearThinking:
    """Leave out the reasoning of all turns of the assistant but the latest ones."""

    type: str
    """As the client wrote it."""
    keep: int | None = 1
    """Number of turns that keep theirs. None: all."""


@dataclass(frozen=True)
class ClearToolUses:
    """Replace the results of all calls but the latest ones by a short text."""

    type: str
    """As the client wrote it."""
    trigger: int = 100_000
    """The edit applies to a conversation with more than this number of `unit`."""
    unit: Literal["input_tokens", "tool_uses"] = "input_tokens"
    keep: int = 3
    """Number of calls that keep their results."""
    at_least: int = 0
    """The edit applies only if it removes this number of tokens."""
    excluded: frozenset[str] = frozenset()
    """Names of tools whose calls keep their results."""
    inputs: bool | frozenset[str] = False
    """Whether the arguments of these calls are cleared as well, or the names of the tools whose
    arguments are."""


ContextEdit = ClearThinking | ClearToolUses


@dataclass(frozen=True)
class AppliedEdit:
    edit: ContextEdit
    cleared: int
    """Number of turns or of calls."""
    tokens: int
    """How much shorter the prompt is."""


async def edited(
    request: ChatRequest, edits: Iterable[ContextEdit], count: Count, context: int
) -> tuple[ChatRequest, list[AppliedEdit]]:
    """Return the request after the edits that apply, with these. `context`: the model's, in tokens.
    The same conversation is always edited in the same way. Raise ToolgateError if `count` does."""
    prompt, applied = _Prompt(request, count), list[AppliedEdit]()
    for edit in edits:
        messages = prompt.request.messages
        if isinstance(edit, ClearThinking):
            messages, cleared = without_old_reasoning(messages, edit)
        else:
            messages, cleared = without_old_results(messages, edit)
        if not cleared or not await _is_due(edit, prompt, context):
            continue
        shorter = _Prompt(replace(prompt.request, messages=messages), count)
        saved = await _saved(prompt, shorter)
        if isinstance(edit, ClearThinking) or saved >= edit.at_least:
            prompt = shorter
            applied.append(AppliedEdit(edit, cleared, saved))
    return prompt.request, applied


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
    """Return how many tokens shorter the prompt is: an estimate if one of the two cannot be
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
