"""A chat request in the terms of one backend: within its bounds, in the form of its model's chat
template, and with its enforcement plan.

Responses, counts and generation without enforcement begin with the same preparation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from toolgate_core import wire
from toolgate_core.dialects.dialect import CallIds, Dialect, Switch
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import BackendFailed, ContextLengthExceeded
from toolgate_core.text_size import IMAGE, check_token_ids

from ..backend_client.client import Backend
from ..backend_client.faults import SAME_RELEASE
from ..context import Notes
from ..request.chat_request import ChatRequest, HistoryChange
from ..request.plan import EnforcementPlan, make_plan
from ..request.toolset import definitions
from ..settings import Settings
from ..validation.service import ValidationService
from .images import Images, without_images_in_results

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Values of `reasoning_effort`, in ascending order."""


class Engine:
    """What the requests of a process share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.images = Images(fetch=settings.image_urls)
        self.validators = ValidationService()


@dataclass(frozen=True)
class PreparedRequest:
    """A request in the terms of one backend, with its plan."""

    request: ChatRequest
    """In the terms of the model."""
    info: wire.Info
    dialect: Dialect
    plan: EnforcementPlan

    @property
    def prompt(self) -> wire.ChatPrompt:
        return chat_prompt(self.request)

    def count_message(self) -> wire.CountTokens:
        """Return the message that asks for the number of tokens of the prompt."""
        return wire.CountTokens(
            fingerprint=self.info.fingerprint,
            model=self.request.model,
            prompt=self.prompt,
            max_tokens=self.request.sampling.max_tokens or 0,
        )


async def with_images(
    request: ChatRequest, images: Images, backend: Backend, notes: Notes
) -> ChatRequest:
    """Return the request with all images as data. For a model that takes text only, those in
    results of calls are left out, which is noted. Raise ToolgateError."""
    if IMAGE not in request.part_types:
        return request
    info = await backend.info()
    messages, places = request.messages, tuple[int, ...]()
    if not info.images:
        messages, places = without_images_in_results(messages)
    paths = (request.message_paths[at] for at in places)
    notes.note_changes(HistoryChange("image", path) for path in paths)
    messages = await images.inlined(messages, accepts_images=info.images)
    return replace(request, messages=messages)


def chat_prompt(request: ChatRequest) -> wire.ChatPrompt:
    prompt = wire.ChatPrompt(
        messages=request.messages,
        tools=tuple(tool.definition for tool in request.prompt_tools) or None,
        template_kwargs=request.template_kwargs or {},
        tokenizing=request.tokenizing,
    )
    known = [tool.json for tool in request.prompt_tools if tool.json is not None]
    if known and len(known) == len(request.prompt_tools):
        prompt._tools_json = b"[%b]" % b",".join(known)
    return prompt


def prepared(request: ChatRequest, info: wire.Info) -> PreparedRequest:
    """Return the request in the terms of the model. A request that is in these terms stays the
    same. Raise InvalidRequest and BackendFailed."""
    dialect = _dialect(info)
    if info.limits.vocabulary is not None:
        check_token_ids(request.sampling, info.limits.vocabulary)
    messages = with_family_ids(request.messages, dialect)
    if messages is not request.messages:
        request = replace(request, messages=messages)
    request = with_reasoning_switch(request, dialect)
    return PreparedRequest(request, info, dialect, make_plan(request, dialect))


def _dialect(info: wire.Info) -> Dialect:
    if info.dialect not in DIALECTS:
        raise BackendFailed(
            f"The backend uses the unknown dialect {info.dialect!r}. {SAME_RELEASE}"
        )
    return DIALECTS[info.dialect]


def with_reasoning_switch(request: ChatRequest, dialect: Dialect) -> ChatRequest:
    """Return the request with the template argument of the family. Requests switch reasoning by
    `enable_thinking` or `reasoning_effort`, and each family's template has an argument of its own.
    An argument that the request already has in `chat_template_kwargs` is kept, and decides if
    nothing else does."""
    switch = dialect.reasoning.switch if dialect.reasoning else None
    if switch is None:
        return request
    arguments = request.template_kwargs or {}
    effort = arguments.get("reasoning_effort")
    own_argument = arguments.get(switch.argument)
    if request.reasoning == "default" and own_argument is not None and own_argument != effort:
        if own_argument == switch.off:
            return replace(request, reasoning="off")
        return replace(request, reasoning="on") if own_argument == switch.on else request
    if request.reasoning == "default":
        return request
    value = _value(switch, effort, on=request.reasoning == "on")
    if switch.argument in arguments and switch.argument != "reasoning_effort":
        value = arguments[switch.argument]
    kwargs = {name: each for name, each in arguments.items() if name != switch.argument}
    if value is not None:
        kwargs[switch.argument] = value
    return replace(request, template_kwargs=kwargs)


def _value(switch: Switch, effort: object, *, on: bool) -> object:
    """Return the value of the family's argument; None to leave it out."""
    if not on:
        return switch.off
    if not switch.levels or effort not in EFFORTS:
        return switch.on
    wanted = EFFORTS.index(str(effort))
    known = [level for level in EFFORTS if level in switch.levels]
    return min(known, key=lambda level: abs(EFFORTS.index(level) - wanted))


Message = dict[str, Any]


def with_family_ids(messages: Sequence[Message], dialect: Dialect) -> tuple[Message, ...]:
    """Return the messages with the ids of the dialect. Unchanged if the family writes no ids, or if
    all ids are of its form already."""
    ids = dialect.calls.ids if dialect.calls else None
    if ids is None:
        return tuple(messages)
    return tuple(_Renaming(ids).renamed(messages))


class _Renaming:
    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._number = ids.first
        self._new: dict[str, str] = {}
        """By id in the request: the id that the template gets. A repeated id is that of the last
        call."""

    def renamed(self, messages: Iterable[Message]) -> Iterable[Message]:
        for message in messages:
            if message.get("role") == "assistant" and message.get("tool_calls"):
                yield message | {"tool_calls": self._calls(message["tool_calls"])}
            elif message.get("role") == "tool":
                yield message | {"tool_call_id": self._new[message["tool_call_id"]]}
            else:
                yield message

    def _calls(self, calls: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        if self._ids.kind == "turn":
            self._number = self._ids.first
        renamed = []
        for call in calls:
            new = self._new[call["id"]] = self._new_id(call["function"]["name"], call["id"])
            self._number += 1
            renamed.append(call | {"id": new})
        return renamed

    def _new_id(self, name: str, old: str) -> str:
        if self._ids.kind == "random":
            # The same for the same id in every request, so that the prefix cache is used.
            digest = hashlib.sha256(old.encode(errors="replace")).hexdigest()
            text = old if self._has_form(old) else digest[: self._ids.length]
        else:
            text = str(self._number)
        return self._ids.form.replace("{name}", name).replace("{id}", text)

    def _has_form(self, text: str) -> bool:
        return re.fullmatch(f"[A-Za-z0-9]{{{self._ids.length}}}", text) is not None


ROOM = 1024
"""Tokens left for a response whose length the request does not limit; at most a quarter of the
context."""
HEAD = ("system", "developer")
Count = Callable[[ChatRequest], Awaitable[int]]
"""Returns the tokens of a prompt, or raises ContextLengthExceeded."""


async def fitted(request: ChatRequest, count: Count, context: int) -> ChatRequest:
    """Return the request without as many of its oldest turns as necessary. `context`: in tokens. A
    conversation whose newest part exceeds the context keeps only that part."""
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
    """Return the indexes of messages that are dropped together, the first ones first: whole turns
    except the last one, and of that one the messages after the user's, except the newest. A call
    stays with its results. The first system messages are not among them, and neither are turns that
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
    """Return the indexes in groups. `begins`: whether a message of a role begins a group."""
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
