"""Keeps the reasoning of turns with calls, and hands it back to turns that arrive without it.

Some families were trained with the reasoning of their earlier turns in the prompt, but many clients
drop it. Reasoning is sealed for the owner of the API key.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolgate_core.deltas import CallStart, Finish, ReasoningDelta

from .chat.response import ChatResponse, ResponseEvent
from .kept_values import KeptValues
from .metrics import REASONING_TURNS
from .request.chat_request import ChatRequest
from .sealing import OwnerSeal, SealBroken
from .settings import Settings

PURPOSE = "kept reasoning"
EVERY_MODEL = "*"
MAX_BYTES = 1_000_000
"""Most bytes of the reasoning of one turn, in UTF-8."""
MAX_TURNS = 200
"""Most turns of a request whose reasoning is looked up, the latest."""

Events = AsyncIterator[list[ResponseEvent]]
Message = dict[str, Any]
RANDOM_ID = re.compile(r"(?:call|toolu)_([A-Za-z0-9]{24})")
"""The gateway's own ids of calls, which are unique. The prefix is that of the API."""


class KeptReasoning:
    def __init__(self, store: KeptValues, settings: Settings) -> None:
        self._store = store
        self._models = frozenset(settings.keep_reasoning)

    async def restored(
        self, request: ChatRequest, model: str, seal: OwnerSeal | None
    ) -> ChatRequest:
        """Return the request with the reasoning of earlier turns, where it is missing and was kept.
        `model`: the name that clients use."""
        if seal is None or not self._applies_to(model):
            return request
        names = _missing(request.messages, model, seal)
        if not names:
            return request
        messages = list(request.messages)
        kept = await self._store.get(list(names.values()))
        for at, value in zip(names, kept, strict=True):
            text = None if value is None else _opened(value, seal)
            REASONING_TURNS.labels("missing" if text is None else "restored").inc()
            if text is not None:
                messages[at] = {**messages[at], "reasoning_content": text}
        return replace(request, messages=tuple(messages))

    def keeping(
        self, events: Events, response: ChatResponse, model: str, seal: OwnerSeal | None
    ) -> Events:
        """Return the same events. Reasoning is kept before the end of its choice is sent: the
        client's next request may follow at once."""
        if seal is None or not self._applies_to(model):
            return events
        return self._keeping(events, response, model, seal)

    def _applies_to(self, model: str) -> bool:
        return model in self._models or EVERY_MODEL in self._models

    async def _keeping(
        self, events: Events, response: ChatResponse, model: str, seal: OwnerSeal
    ) -> Events:
        texts: dict[int, list[str]] = {}
        names: dict[int, str] = {}
        async for batch in events:
            ended: dict[str, str] = {}
            for event in batch:
                at = event.choice
                match event.event:
                    case ReasoningDelta(text=text) if at not in names:
                        texts.setdefault(at, []).append(text)
                    case CallStart() as start if at not in names:
                        messages, call_id = response.request.messages, response.call_id(start)
                        turns = TurnNames(model, messages)
                        name = turns.name(len(messages), call_id, start.name)
                        names[at] = _stored_name(name, seal)
                    case Finish() if at in names:
                        ended[names[at]] = "".join(texts.pop(at, ()))
            await self._keep(ended, seal)
            yield batch

    async def _keep(self, texts: dict[str, str], seal: OwnerSeal) -> None:
        encoded = {name: text.encode("utf-8", "surrogatepass") for name, text in texts.items()}
        sealed = {
            name: seal.seal(zlib.compress(data, 1), purpose=PURPOSE)
            for name, data in encoded.items()
            if 0 < len(data) <= MAX_BYTES
        }
        if sealed:
            await self._store.put(sealed)
            REASONING_TURNS.labels("kept").inc(len(sealed))


def _missing(messages: Sequence[Message], model: str, seal: OwnerSeal) -> dict[int, str]:
    """Return the names in the store of turns with calls, but no reasoning, by their positions."""
    names: dict[int, str] = {}
    turns = TurnNames(model, messages)
    for at, message in enumerate(messages):
        calls = message.get("tool_calls") or ()
        if calls and not message.get("reasoning_content") and not message.get("reasoning"):
            call_id, tool = calls[0].get("id") or "", calls[0]["function"]["name"]
            names[at] = _stored_name(turns.name(at, call_id, tool), seal)
    return dict(list(names.items())[-MAX_TURNS:])


def _stored_name(name: str, seal: OwnerSeal) -> str:
    return seal.sealer.digest(f"{seal.owner}\0{name}", purpose=PURPOSE)


def _opened(value: bytes, seal: OwnerSeal) -> str | None:
    try:
        data = seal.open(value, purpose=PURPOSE)
    except SealBroken:
        return None
    unpacked = zlib.decompressobj().decompress(data, MAX_BYTES)
    return unpacked.decode("utf-8", "surrogatepass")


class TurnNames:
    """Names under which the reasoning of the turns of one conversation is kept, asked for in the
    order of the turns.

    Families with counted ids use the same ids in all conversations. There, the texts of the
    messages before the turn are part of the name: a conversation never gets the reasoning of
    another one.
    """

    def __init__(self, model: str, messages: Sequence[Mapping[str, Any]]) -> None:
        self._model = model
        self._messages = messages
        self._before = hashlib.sha256()
        self._read = 0

    def name(self, at: int, call_id: str, tool: str) -> str:
        """Return the name of the turn at position `at` of the messages, by its first call."""
        if (match := RANDOM_ID.fullmatch(call_id)) is not None:
            return json.dumps([self._model, match[1]])
        for message in self._messages[self._read : at]:
            said = [message.get("role"), message.get("content"), _calls(message)]
            self._before.update(json.dumps(said, sort_keys=True, default=str).encode())
        self._read = at
        return json.dumps([self._model, call_id, tool, self._before.hexdigest()])


def _calls(message: Mapping[str, Any]) -> list[Any]:
    return [call.get("function") for call in message.get("tool_calls") or ()]
