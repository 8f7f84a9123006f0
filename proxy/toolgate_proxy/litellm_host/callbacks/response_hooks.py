"""LiteLLM's hooks and guardrails on a response of our own route, run by LiteLLM's own code.

A response that no hook changes is sent as it was made. In a changed one, each call that the hooks
changed or added must satisfy its schema, and so must the content under a `response_format`. Events
of a stream are sent as the hooks let them pass, up to the first part of a call. From there on they
are held until the end of the stream; with a `response_format`, or a guardrail that reads the text
only of whole responses, from its beginning.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any

import orjson
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.types.utils import CallTypes, ModelResponse, ModelResponseStream
from pydantic import BaseModel

from toolgate_core.errors import ToolgateError, ToolSchemaViolation
from toolgate_core.host_probe import optional

from ...api.surface import ApiResponse
from ...background import without_owner
from ...request.chat_request import ChatRequest
from ...state import gateway
from ..errors import HostRefused, own_error, own_errors
from ..hooks import (
    AFTER_DEPLOYMENT,
    CHUNK,
    STREAM_OF_DEPLOYMENT,
    acts_on_response,
    guardrails_of_whole_responses,
    has,
    having,
    is_unified,
)
from ..proxy_server import litellm_proxy
from .request_data import RequestData
from .response_forms import DONE, FORMS, FRAME_END, ResponseCall, body_of, events_of, frame_of

logger = logging.getLogger("toolgate")

CONTENT = "content"
"""The member of a message that is null, and never missing, without text."""


class ResponseHooks:
    """LiteLLM's hooks on the responses of all models at which one request is."""

    def __init__(self, data: RequestData) -> None:
        self._data = data
        self._form = FORMS[data.call_type]
        self._moderations: list[asyncio.Task[None]] = []
        self.has_refused = False
        """A hook failed or refused the request or the response. No other model gets it."""
        self.shown: Mapping[str, Any] | None = None
        """The body of the whole response as the hooks left it."""

    def start(self) -> None:
        """Start the hooks that run while the response is made. They run again for a fallback that
        has guardrails of its own."""
        moderation = asyncio.create_task(self._moderated())
        without_owner(moderation)
        self._moderations.append(moderation)

    def end(self) -> None:
        for moderation in self._moderations:
            moderation.cancel()

    @contextmanager
    def noting_refusals(self) -> Iterator[None]:
        """Note that a hook refuses, and raise its exception as a ToolgateError."""
        try:
            with own_errors():
                yield
        except ToolgateError:
            self.has_refused = True
            raise

    async def body(self, whole: ApiResponse, model: str, request: ChatRequest) -> Mapping[str, Any]:
        """Return the body of a whole response as the hooks leave it. It is stored if they change
        nothing. `model`: its name in the router. Raise ToolgateError."""
        with self.noting_refusals():
            await self._require_moderated()
            body = whole.body()
            self.shown = await self._whole(body, model, request)
        if self.shown is not body:
            return self.shown
        await whole.keep()
        return whole.body()

    async def stream(
        self,
        frames: AsyncGenerator[bytes, None],
        whole: ApiResponse,
        model: str,
        request: ChatRequest,
    ) -> AsyncGenerator[bytes, None]:
        """Yield a stream as the hooks leave it. `whole`: the response, which is stored if they
        change nothing. Raise ToolgateError."""
        with self.noting_refusals():
            await self._require_moderated()
        if not acts_on_response(await self._data.prepare()):
            async with aclosing(frames) as parts:
                async for part in parts:
                    yield part
            await whole.keep()
            return
        with self.noting_refusals():
            data = await self._described(model, stream=True)
        change = partial(self._at_deployment, STREAM_OF_DEPLOYMENT, data)
        source = EventSource(frames, self._form.item, change)
        sent: list[bytes] = []
        withheld: list[bytes] = []
        try:
            guardrails = guardrails_of_whole_responses(data)
            is_held = any(not self._form.is_chat or not is_unified(each) for each in guardrails)
            is_held = is_held or request.content_format is not None
            marks = (b"",) if is_held else self._form.marks  # all events have the empty one
            await self._note_headers(data, None)
            async with aclosing(self._left(source, data)) as left:
                async for frame in left:
                    sent.append(frame)
                    if withheld or any(mark in frame for mark in marks):
                        withheld.append(frame)
                    else:
                        yield frame
            for guardrail in () if source.is_cut else guardrails:
                await self._require_passed(guardrail, whole.body(), data, sent)
            if sent == source.taken:
                await whole.keep()
            else:
                taken = self._streamed(source.taken)
                await self._require_valid(request, taken, self._streamed(sent))
            yield b"".join([*withheld, source.end])
        except Exception as error:
            self.has_refused = error is not source.error
            raise own_error(error) from error

    async def _left(self, source: EventSource, data: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield the events of a stream as the hooks leave them. Raise the error that ended the
        stream, and the exceptions of hooks."""
        reads, caller, so_far = has(CHUNK, guardrail=True), self._data.caller, ""
        try:
            async with (
                aclosing(source.items()) as items,
                aclosing(
                    hooks().async_post_call_streaming_iterator_hook(
                        response=items, user_api_key_dict=caller, request_data=data
                    )
                ) as guarded,
            ):
                async for item in guarded:
                    left = item
                    if reads:
                        left = await hooks().async_post_call_streaming_hook(
                            data=data, response=item, user_api_key_dict=caller, str_so_far=so_far
                        )
                        so_far += _text_of(left)
                    yield source.frame(left)
                    if isinstance(left, str):
                        source.is_cut = True  # with an error, as in LiteLLM
                        return
        except Exception:
            if source.error is not None:
                raise source.error from None
            raise

    async def _whole(
        self, body: dict[str, Any], model: str, request: ChatRequest
    ) -> dict[str, Any]:
        """Return the body as the hooks leave it. Raise their exceptions, and ToolgateError."""
        if not acts_on_response(await self._data.prepare()):
            return body
        response = self._form.response(body)
        before = body_of(response)
        data = await self._described(model, stream=False)
        response = await self._at_deployment(AFTER_DEPLOYMENT, data, response)
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
        await self._require_valid(request, self._form.calls(body), self._form.calls(changed))
        return changed

    async def _moderated(self) -> None:
        await hooks().during_call_hook(
            data=await self._data.prepare(),
            user_api_key_dict=self._data.caller,
            call_type=self._data.call_type,
        )

    async def _require_moderated(self) -> None:
        for moderation in self._moderations:
            await moderation

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
            # LiteLLM's runner of such guardrails. Importing it reads the environment.
            from litellm.proxy import utils

            data["guardrail_to_apply"] = guardrail
            hook = utils.unified_guardrail.async_post_call_success_hook
        left = await hook(data=data, user_api_key_dict=self._data.caller, response=response)
        after = body_of(response if left is None else left)
        if after == before:
            return
        if after is None or set(self._form.calls(after)) != set(self._streamed(sent)):
            raise HostRefused(
                f"The guardrail {guardrail.guardrail_name!r} changed the response, which it cannot "
                "do in a stream. Send the request without 'stream'.",
                400,
            )

    async def _described(self, model: str, *, stream: bool) -> dict[str, Any]:
        data = await self._data.describe(model, stream=stream)
        data["model"] = model
        return data

    async def _note_headers(self, data: dict[str, Any], response: Any) -> None:
        """Take the response headers of the hooks for them."""
        self._data.context.notes.headers |= await hooks().post_call_response_headers_hook(
            data=data,
            user_api_key_dict=self._data.caller,
            response=response,
            request_headers=dict(self._data.request.headers),
        )

    async def _at_deployment(self, hook: str, data: dict[str, Any], item: Any) -> Any:
        """Return a response or a chunk as the callbacks with a hook on those of deployments leave
        it. As in LiteLLM, one that fails changes nothing, unless it is a guardrail of responses."""
        call_type = CallTypes(self._data.call_type)
        for callback in having(hook):
            try:
                left = await getattr(callback, hook)(data, item, call_type)
            except Exception as error:
                if hook == AFTER_DEPLOYMENT and isinstance(callback, CustomGuardrail):
                    raise
                logger.warning("A callback failed at a response (%s).", type(error).__name__)
            else:
                item = item if left is None else left
        return item

    def _streamed(self, frames: Iterable[bytes]) -> Iterable[ResponseCall]:
        return self._form.streamed_calls(events_of(b"".join(frames)))

    async def _require_valid(
        self, request: ChatRequest, before: Iterable[ResponseCall], after: Iterable[ResponseCall]
    ) -> None:
        """Raise ToolSchemaViolation if a call that the hooks changed or added is invalid."""
        tools = {tool.name: tool for tool in request.tools}
        for call in Counter(after) - Counter(before):
            is_content = call.name is None
            tool = request.content_format if call.name is None else tools.get(call.name)
            if tool is None and is_content:
                continue  # it has no format
            what = "the content" if is_content else f"a call of {call.name!r}"
            if tool is None:
                raise ToolSchemaViolation(
                    f"A callback of the gateway added {what}, which the request does not offer. "
                    "The response is not sent. Ask the operator of the gateway."
                )
            violation = await gateway().engine.validators.check(
                tool, call.arguments, unique=True, owner=self._data.context.caller.sender
            )
            if violation is not None:
                raise ToolSchemaViolation(
                    f"A callback of the gateway changed {what} so that it violates its schema. The "
                    "response is not sent. Ask the operator of the gateway.",
                    pointer=violation.pointer,
                    keyword=violation.keyword,
                )


def _patched(ours: Any, before: Any, after: Any) -> Any:
    """Return our own value with what differs between the two of LiteLLM, which lack some members of
    ours and have others."""
    if before == after:
        return ours
    if isinstance(ours, dict) and isinstance(before, dict) and isinstance(after, dict):
        new = {name: value for name, value in ours.items() if name in after or name not in before}
        if CONTENT in before and CONTENT not in after:
            new[CONTENT] = None
        for name, value in after.items():
            if name not in before or before[name] != value:
                new[name] = _patched(ours.get(name), before.get(name), value)
        return new
    lists = isinstance(ours, list) and isinstance(before, list) and isinstance(after, list)
    if lists and len(ours) == len(before) == len(after):
        return [_patched(*each) for each in zip(ours, before, after, strict=True)]
    return after


def hooks() -> Any:
    """Return LiteLLM's runner of hooks."""
    return litellm_proxy().proxy_logging_obj


UNSEEN = "id"
"""LiteLLM encrypts it in responses of its own. Ours can be found by it."""


class EventSource:
    """The events of a stream as LiteLLM's objects, and back."""

    def __init__(
        self,
        frames: AsyncGenerator[bytes, None],
        item_of: Callable[[bytes], Any],
        change: Callable[[Any], Awaitable[Any]],
    ) -> None:
        """`change` returns an object as the hooks at the deployment leave it."""
        self._frames = frames
        self._item_of = item_of
        self._change = change
        self._made: dict[bytes, bytes] = {}
        """The events, by the content of LiteLLM's objects."""
        self.taken: list[bytes] = []
        self.end = b""
        """The end of the stream, which the hooks do not get."""
        self.error: ToolgateError | None = None
        """The error that ended the stream."""
        self.is_cut = False
        """A hook on its chunks ended it."""

    async def items(self) -> AsyncGenerator[Any, None]:
        try:
            async with aclosing(self._frames) as frames:
                async for data in frames:
                    for frame in data.split(FRAME_END)[:-1]:
                        if frame.endswith(DONE):
                            self.end = frame + FRAME_END
                        else:
                            yield await self._change(self._taken(frame + FRAME_END))
        except ToolgateError as error:
            self.error = error
            raise

    def frame(self, item: Any) -> bytes:
        """Return the event of what the hooks yield: the original one, or an equal copy of it."""
        return self._made.get(_content(item)) or frame_of(item)

    def _taken(self, frame: bytes) -> Any:
        item = self._item_of(frame)
        self.taken.append(frame)
        self._made[_content(item)] = frame
        return item


def _content(item: Any) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, BaseModel) and optional(item, "response") is None:
        return item.model_dump_json(exclude_none=True).encode()
    content = item
    if isinstance(item, BaseModel):
        content = item.model_dump(mode="json", exclude_none=True)
    if isinstance(content, dict) and isinstance(content.get("response"), Mapping):
        content["response"] = {**content["response"], UNSEEN: None}
    return orjson.dumps(content)


def _text_of(chunk: Any) -> str:
    """Return the text of a chunk of chat completions."""
    if not isinstance(chunk, ModelResponse | ModelResponseStream):
        return ""
    parts = (optional(each, "delta") or each.message for each in chunk.choices)
    return "".join(part.content or "" for part in parts)
