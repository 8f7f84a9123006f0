"""What guardrails get of a prompt that was not in the request's body: texts of files, reasoning and
summaries that were kept or sealed, stored turns, and results of tools that the gateway runs.

The guardrails and hooks before a call run again, by LiteLLM's code, on a chat completion that has
these texts alone. What they change is changed in the prompt. LiteLLM's own counters do not run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from litellm.integrations.custom_guardrail import CustomGuardrail

from ...api.shared.history import NO_RESULT
from ...api.shared.tool_changes import ADDED
from ...context import Guard
from ...request_fields import copied
from ..errors import HostRefused, own_errors
from ..hooks import MODERATION, PRE_CALL, has, having
from ..proxy_server import litellm_proxy
from .guardrail_inputs import CALLS, TEXTS, TOOLS, GuardrailInput, texts_of

Message = dict[str, Any]
Unseen = tuple[str, int, Message]
PROMPT, CALL_TYPE = "messages", "acompletion"
LEFT_OUT = {"input", "instructions", "system", "functions", "documents", "chat_template_kwargs"}
ERROR = "Error: "
"""What is before the text of a failed call."""
OWN = ("", ADDED, NO_RESULT)
"""Texts of the gateway itself."""


class LaterTexts:
    """What guardrails make of texts that are read later. `data`, `caller`: as LiteLLM's hooks get
    them. `body`: as they left it. `errors` raises the exceptions of hooks as ToolgateErrors."""

    def __init__(
        self,
        data: Mapping[str, Any],
        caller: Any,
        body: Mapping[str, Any],
        errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._data = {name: data[name] for name in data.keys() - LEFT_OUT - {PROMPT, TOOLS}}
        self._caller, self._errors = caller, errors
        self._unread: Mapping[str, Any] | None = body
        self._lines = {*OWN}
        """Those of all texts that were seen, and the names of members."""

    async def guarded(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages of the prompt with the guardrails' texts. Raise ToolgateError."""
        changed = copied({PROMPT: [*messages]})
        seen, unseen = await asyncio.to_thread(self._unseen, changed)
        added = [message for *_, message in unseen]
        if not added:
            return messages
        inputs = {**seen.inputs, TEXTS: [*seen.inputs[TEXTS]], CALLS: [*seen.inputs[CALLS]]}
        with self._errors():
            left = await self._hooked(added)
            try:
                if len(left) != len(added):  # a hook that adds messages changes no other ones
                    left = [left[left.index(message)] for message in added]
                for (name, at, _), message in zip(unseen, left, strict=True):
                    [inputs[name][at]] = texts_of(message) if name == TEXTS else message[CALLS]
                seen.write(inputs)
            except (ValueError, TypeError, KeyError) as error:
                raise HostRefused(
                    "A callback of the gateway changed the text of a file, of a tool's result or "
                    "of an earlier turn in a form that cannot be applied, so the request is not "
                    "sent. Ask the operator of the gateway.",
                    500,
                ) from error
        self._note(inputs)
        return [*changed[PROMPT]]

    def _unseen(self, prompt: dict[str, Any]) -> tuple[GuardrailInput, list[Unseen]]:
        """Return the prompt's texts and calls, and the messages of those not seen, with places."""
        if self._unread is not None:
            self._note(GuardrailInput(None, dict(self._unread), None).inputs)
            self._unread = None
        seen = GuardrailInput(None, prompt, None)
        unseen = [
            (TEXTS, at, {**seen.heads[at], "content": text})
            for at, text in enumerate(seen.inputs[TEXTS])
            if not self._has(text.removeprefix(ERROR))
        ]
        unseen += [
            (CALLS, at, {"role": "assistant", "content": None, CALLS: [call]})
            for at, call in enumerate(seen.inputs[CALLS])
            if not self._has([*call["function"]["name"].split("."), call["function"]["arguments"]])
        ]
        return seen, unseen

    def _note(self, inputs: Mapping[str, Any]) -> None:
        self._lines.update(_lines([inputs[TEXTS], inputs[CALLS], inputs[TOOLS]]))

    def _has(self, value: Any) -> bool:
        return self._lines.issuperset(_lines(value))

    async def _hooked(self, messages: Sequence[Message]) -> list[Message]:
        hooks, proxy = litellm_proxy().proxy_logging_obj, litellm_proxy()
        options = {"user_api_key_dict": self._caller, "call_type": CALL_TYPE}
        data = {**self._data, PROMPT: copied({PROMPT: [*messages]})[PROMPT]}
        data = await hooks.pre_call_hook(data=data, **options, guardrails_only=True) or data
        for callback in having(PRE_CALL):
            if not isinstance(callback, CustomGuardrail) and not callback.enforces_request_content:
                cache = proxy.user_api_key_cache
                left = await callback.async_pre_call_hook(cache=cache, data=data, **options)
                if isinstance(left, Exception):
                    raise left
                if isinstance(left, str):
                    raise HostRefused(left, 400)
                data = left or data
        await hooks.during_call_hook(data=data, **options)
        return [*data[PROMPT]]


def guard_of_call(
    metadata: Mapping[str, Any], logging: Any, body: Mapping[str, Any]
) -> Guard | None:
    """Return what shows texts to guardrails that did not see them in the body of a request on
    LiteLLM's route; None: there are none. `metadata`: of LiteLLM, with the sender."""
    caller = metadata.get("user_api_key_auth")
    if caller is None or not has(PRE_CALL, MODERATION, guardrail=True):
        return None
    data = {"metadata": metadata, "litellm_logging_obj": logging}
    return LaterTexts(data, caller, body, own_errors).guarded


def _lines(value: Any) -> Iterator[str]:
    """Yield the lines of the texts in a JSON value, and the names of members. A text that is a JSON
    object counts as its texts: APIs write arguments and results in other ways than prompts."""
    left = [value]
    while left:
        match left.pop():
            case str() as text:
                members = _object(text)
                left += [] if members is None else [members]
                yield from text.split("\n") if members is None else ()
            case list() as entries:
                left += entries
            case dict() as members:
                left += [*members, *members.values()]


def _object(text: str) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        return json.loads(text) if text.startswith("{") else None
    return None
