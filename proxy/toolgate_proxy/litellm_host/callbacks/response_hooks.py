"""LiteLLM's hooks and guardrails on a response of our own route, run by LiteLLM's own code.

A response that no hook changes is sent as it was made. In a changed one, each call that the hooks
changed or added must satisfy its schema, and so must the content under a `response_format`. Events
of a stream are sent as the hooks let them pass, up to the first part of a call. From there on they
are held until the end of the stream; with a `response_format`, or a guardrail that reads the text
only of whole responses, from its beginning.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any

import litellm
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.types.utils import CallTypes, ModelResponse, ModelResponseStream

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ToolgateError, ToolSchemaViolation

from ...api.surface import Whole
from ...validation.service import ValidationService
from ..errors import HostRefused
from .configured import (
    AFTER_DEPLOYMENT,
    STREAM_OF_DEPLOYMENT,
    acts_on_response,
    guardrails_of_whole_responses,
    having,
    is_unified,
)
from .event_source import UNSEEN, EventSource
from .request_data import RequestData
from .response_forms import FORMS, Call, body_of, events_of

logger = logging.getLogger("toolgate")

CONTENT = "content"
"""The member of a message that is null, and never missing, without text."""


class ResponseHooks:
    """`validators`: check changed calls of `request`. `owner`: the key of the request."""

    def __init__(
        self,
        data: RequestData,
        model: str,
        request: ChatRequest,
        validators: ValidationService,
        owner: str,
    ) -> None:
        self._data = data
        self._model = model
        self._form = FORMS[data.call_type]
        self._tools = {tool.name: tool for tool in request.tools}
        self._content_format = request.content_format
        self._validators = validators
        self._owner = owner
        self._so_far = ""
        """Text of the stream, for hooks on its chunks."""
        self.error: ToolgateError | None = None
        """The error of the stream itself, not of a hook."""

    async def whole(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body as the hooks leave it. Raise their exceptions, and ToolgateError."""
        if not acts_on_response(await self._data.prepared()):
            return body
        response = self._form.response(body)
        before = body_of(response)
        data = await self._described(stream=False)
        if having(AFTER_DEPLOYMENT):
            response = await litellm.utils.async_post_call_success_deployment_hook(
                request_data=data, response=response, call_type=self._data.call_type
            )
        response = await hooks().post_call_success_hook(
            data=data, user_api_key_dict=self._data.caller, response=response
        )
        await self._note_headers(data, response)
        after = body_of(response)
        if after is None or before is None:
            raise HostRefused("A callback of the gateway returned no response.", 500)
        after[UNSEEN] = before[UNSEEN]
        if after == before:
            return body
        changed: dict[str, Any] = _patched(body, before, after)
        await self._require_valid(self._form.calls(body), self._form.calls(changed))
        return changed

    async def stream(
        self, frames: AsyncGenerator[bytes, None], whole: Callable[[], Whole]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events as the hooks leave them. `whole` makes the whole response at the end. It
        is stored if they change nothing. Raise their exceptions, and ToolgateError."""
        if not acts_on_response(await self._data.prepared()):
            async with aclosing(frames) as parts:
                async for part in parts:
                    yield part
            await whole().keep()
            return
        data = await self._described(stream=True)
        guardrails = guardrails_of_whole_responses(data)
        is_held = any(not self._form.is_chat or not is_unified(each) for each in guardrails)
        is_ended = True
        source = EventSource(frames, self._form.item)
        sent: list[bytes] = []
        held: list[bytes] = []
        await self._note_headers(data, None)
        try:
            async with (
                aclosing(source.items()) as items,
                aclosing(self._of_deployment(items, data)) as left_items,
                aclosing(
                    hooks().async_post_call_streaming_iterator_hook(
                        response=left_items, user_api_key_dict=self._data.caller, request_data=data
                    )
                ) as guarded,
            ):
                async for item in guarded:
                    left = await self._chunk(item, data)
                    frame = source.frame(left)
                    sent.append(frame)
                    if held or is_held or self._is_held(frame):
                        held.append(frame)
                    else:
                        yield frame
                    if isinstance(left, str):
                        is_ended = False
                        break  # with an error, as in LiteLLM
        except Exception:
            self.error = source.error
            if source.error is not None:
                raise source.error from None
            raise
        for guardrail in guardrails if is_ended else ():
            await self._require_passed(guardrail, whole().body(), data, sent)
        if sent == source.taken:
            await whole().keep()
        else:
            await self._require_valid(self._streamed(source.taken), self._streamed(sent))
        yield b"".join([*held, source.end])

    async def _require_passed(
        self,
        guardrail: CustomGuardrail,
        body: dict[str, Any],
        data: dict[str, Any],
        sent: Iterable[bytes],
    ) -> None:
        """Run a guardrail on the whole response at the end of a stream. Raise its exception, and
        HostRefused if it changes the response in another way than the stream was changed."""
        response = self._form.response(body)
        before = body_of(response)
        hook = guardrail.async_post_call_success_hook
        if is_unified(guardrail):
            data["guardrail_to_apply"] = guardrail
            hook = unified().async_post_call_success_hook
        left = await hook(data=data, user_api_key_dict=self._data.caller, response=response)
        after = body_of(response if left is None else left)
        if after == before:
            return
        if after is None or set(self._form.calls(after)) != set(self._streamed(sent)):
            raise HostRefused(
                f"The guardrail {guardrail.guardrail_name!r} changed the response, which it can't "
                "do in a stream. Send the request without `stream`.",
                400,
            )

    async def _described(self, *, stream: bool) -> dict[str, Any]:
        data = await self._data.described(self._model, stream=stream)
        data["model"] = self._model
        return data

    async def _note_headers(self, data: dict[str, Any], response: Any) -> None:
        """Take the response headers of the hooks for them."""
        if hooks().has_post_call_response_headers_callbacks():
            self._data.context.extra_headers |= await hooks().post_call_response_headers_hook(
                data=data,
                user_api_key_dict=self._data.caller,
                response=response,
                request_headers=dict(self._data.request.headers),
            )

    async def _of_deployment(
        self, items: AsyncGenerator[Any, None], data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Yield the chunks as `async_post_call_streaming_deployment_hook` leaves them. As in
        LiteLLM, one that fails changes nothing."""
        callbacks, call_type = having(STREAM_OF_DEPLOYMENT), CallTypes(self._data.call_type)
        async for item in items:
            made = item
            for callback in callbacks:
                try:
                    left = await callback.async_post_call_streaming_deployment_hook(
                        request_data=data, response_chunk=made, call_type=call_type
                    )
                except Exception as error:  # noqa: BLE001
                    logger.warning("A callback failed at a chunk (%s).", type(error).__name__)
                else:
                    made = made if left is None else left
            yield made

    async def _chunk(self, item: Any, data: dict[str, Any]) -> Any:
        """Run the hooks on one chunk."""
        if not hooks().needs_per_chunk_streaming_hook():
            return item
        left = await hooks().async_post_call_streaming_hook(
            data=data,
            response=item,
            user_api_key_dict=self._data.caller,
            str_so_far=self._so_far,
        )
        if isinstance(left, ModelResponse | ModelResponseStream):
            self._so_far += litellm.get_response_string(response_obj=left)
        return left

    def _is_held(self, frame: bytes) -> bool:
        return self._content_format is not None or any(mark in frame for mark in self._form.marks)

    def _streamed(self, frames: Iterable[bytes]) -> Iterable[Call]:
        return self._form.streamed_calls(events_of(b"".join(frames)))

    async def _require_valid(self, before: Iterable[Call], after: Iterable[Call]) -> None:
        """Raise ToolSchemaViolation if a call that the hooks changed or added is invalid."""
        for call in Counter(after) - Counter(before):
            is_content = call.name is None
            tool = self._content_format if call.name is None else self._tools.get(call.name)
            if tool is None and is_content:
                continue  # it has no format
            what = "the content" if is_content else f"a call of {call.name!r}"
            if tool is None:
                raise ToolSchemaViolation(
                    f"A callback of the gateway added {what}, which the request does not offer. "
                    "The response is not sent. Ask the operator of the gateway."
                )
            violation = await self._validators.check(
                tool, call.arguments, unique=True, owner=self._owner
            )
            if violation is not None:
                raise ToolSchemaViolation(
                    f"A callback of the gateway changed {what} so that it violates its schema. The "
                    "response is not sent. Ask the operator of the gateway.",
                    pointer=violation.pointer,
                    keyword=violation.keyword,
                )


def _patched(own: Any, before: Any, after: Any) -> Any:
    """Return our own value with what differs between the two of LiteLLM, which lack some members of
    ours and have others."""
    if before == after:
        return own
    if isinstance(own, dict) and isinstance(before, dict) and isinstance(after, dict):
        made = {name: value for name, value in own.items() if name in after or name not in before}
        if CONTENT in before and CONTENT not in after:
            made[CONTENT] = None
        for name, value in after.items():
            if name not in before or before[name] != value:
                made[name] = _patched(own.get(name), before.get(name), value)
        return made
    lists = isinstance(own, list) and isinstance(before, list) and isinstance(after, list)
    if lists and len(own) == len(before) == len(after):
        return [_patched(*each) for each in zip(own, before, after, strict=True)]
    return after


def hooks() -> Any:
    """Return LiteLLM's runner of hooks."""
    from litellm.proxy import proxy_server

    return proxy_server.proxy_logging_obj


def unified() -> Any:
    """Return LiteLLM's runner of guardrails that have `apply_guardrail`."""
    from litellm.proxy.utils import unified_guardrail

    return unified_guardrail
