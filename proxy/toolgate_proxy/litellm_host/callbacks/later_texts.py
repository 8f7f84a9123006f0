"""What guardrails get of a prompt that was not in the request's body: texts of files, reasoning and
summaries that were kept or sealed, stored turns, and results of tools that the gateway runs.

The guardrails and hooks before a call run again, by LiteLLM's code, on a chat completion that has
these texts alone. What they change is changed in the prompt. LiteLLM's own counters do not run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from litellm.integrations.custom_guardrail import CustomGuardrail

from ...api.shared.history import NO_RESULT
from ...api.shared.tool_changes import ADDED
from ...context import Guard
from ...request_fields import copied
from ..errors import HostRefused, own_errors
from ..hooks import MODERATION, PRE_CALL, has, having
from ..proxy_server import litellm_proxy
from .guardrail_inputs import CALLS, TEXTS, TOOLS, Shown, texts_of

Message = dict[str, Any]
PROMPT, CALL_TYPE = "messages", "acompletion"
LEFT_OUT = {"input", "instructions", "system", "functions", "documents", "chat_template_kwargs"}
ERROR = "Error: "
"""What is before the text of a failed call."""
OWN = ("", ADDED, NO_RESULT)
"""Texts of the gateway itself."""


class LaterTexts:
    """For one request. `data`, `caller`: as LiteLLM's hooks get them. `body`: as they left it.
    `errors` raises the exceptions of hooks as ToolgateErrors."""

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
        """Those of the texts that were seen, and the names of members."""

    async def guarded(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages of the prompt as the guardrails leave their texts. Raise
        ToolgateError."""
        changed = copied({PROMPT: [*messages]})
        shown, texts, calls = await asyncio.to_thread(self._unseen, changed)
        inputs = {**shown.inputs, TEXTS: [*shown.inputs[TEXTS]], CALLS: [*shown.inputs[CALLS]]}
        added = [{**shown.heads[at], "content": inputs[TEXTS][at]} for at in texts]
        called = {"role": "assistant", "content": None}
        added += [{**called, CALLS: [inputs[CALLS][at]]} for at in calls]
        if not added:
            return messages
        with self._errors():
            left = await self._hooked(added)
            try:
                if len(left) != len(added):  # a hook that adds messages changes no other ones
                    left = [left[left.index(message)] for message in added]
                for at, message in zip(texts, left, strict=False):
                    [inputs[TEXTS][at]] = texts_of(message)
                for at, message in zip(calls, left[len(texts) :], strict=True):
                    [inputs[CALLS][at]] = message[CALLS]
                shown.write(inputs)
            except (ValueError, TypeError, KeyError) as error:
                raise HostRefused(
                    "A callback of the gateway changed the text of a file, of a tool's result or "
                    "of an earlier turn in a form that can't be applied, so the request is not "
                    "sent. Ask the operator of the gateway.",
                    500,
                ) from error
        self._note(inputs)
        return [*changed[PROMPT]]

    def _unseen(self, prompt: dict[str, Any]) -> tuple[Shown, list[int], list[int]]:
        """Return the texts and calls of the prompt, and the numbers of those that were not seen."""
        if self._unread is not None:
            self._note(Shown(None, dict(self._unread), None).inputs)
            self._unread = None
        shown = Shown(None, prompt, None)
        texts = [at for at, text in enumerate(shown.inputs[TEXTS]) if not self._has(text)]
        calls = [at for at, call in enumerate(shown.inputs[CALLS]) if not self._has_call(call)]
        return shown, texts, calls

    def _note(self, inputs: Mapping[str, Any]) -> None:
        calls = [each["function"] for each in inputs[CALLS]]
        given = [_parsed(each["arguments"]) for each in calls]
        for text in (*inputs[TEXTS], *_strings([calls, given, inputs[TOOLS]])):
            self._lines.update(text.split("\n"))

    def _has(self, text: str) -> bool:
        """Return whether all lines of a text were seen, or all texts and names of JSON."""
        if self._lines.issuperset(text.removeprefix(ERROR).split("\n")):
            return True
        value = _parsed(text) if text.startswith("{") else None
        return isinstance(value, dict) and all(map(self._has, _strings(value)))

    def _has_call(self, call: Mapping[str, Any]) -> bool:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        return self._lines.issuperset(name.split(".")) and self._has(arguments)

    async def _hooked(self, messages: Sequence[Message]) -> list[Message]:
        hooks, proxy = litellm_proxy().proxy_logging_obj, litellm_proxy()
        given = {"user_api_key_dict": self._caller, "call_type": CALL_TYPE}
        data = {**self._data, PROMPT: copied({PROMPT: [*messages]})[PROMPT]}
        data = await hooks.pre_call_hook(data=data, **given, guardrails_only=True) or data
        for callback in having(PRE_CALL):
            if not isinstance(callback, CustomGuardrail) and not callback.enforces_request_content:
                cache = proxy.user_api_key_cache
                left = await callback.async_pre_call_hook(cache=cache, data=data, **given)
                if isinstance(left, Exception):
                    raise left
                if isinstance(left, str):
                    raise HostRefused(left, 400)
                data = left or data
        await hooks.during_call_hook(data=data, **given)
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


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, and the names of members."""
    left = [value]
    while left:
        match left.pop():
            case str() as text:
                yield text
            case list() as entries:
                left += entries
            case dict() as members:
                left += [*members, *members.values()]
