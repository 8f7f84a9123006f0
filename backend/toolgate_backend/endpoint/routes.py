"""The routes /v1/toolgate/{info,status,grammars,count,generate} on vLLM's own app.

Gateways reach them through `POST /v1/chat/completions` (toolgate_core/chat_shape.py). The
key of the backend protects all routes of the server: vLLM's `--api-key` protects only paths that
begin with /v1, /v2, /inference or /cohere, and its other routes generate text and rescale the
engine, too.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from hmac import compare_digest
from typing import TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ValidationError
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from vllm.entrypoints.serve.utils.api_utils import with_cancellation
from vllm.exceptions import GenerationError, GracefulHTTPError
from vllm.logger import init_logger
from vllm.v1.engine.exceptions import EngineDeadError

from toolgate_core import wire
from toolgate_core.chat_shape import SHAPED, ChatShape, message_in
from toolgate_core.errors import (
    BackendFailed,
    BackendUnavailable,
    InvalidRequest,
    RequestTooLarge,
    ToolgateError,
)

from ..settings import settings
from .service import Service
from .token_stream import batched

logger = init_logger(__name__)
router = APIRouter(prefix="/v1/toolgate")

MAX_BODY_BYTES = 256_000_000
"""Maximum size of a body, in bytes. The gateway's defaults allow 16 images of 10 MB each, which are
a third longer in base64."""
KEEPALIVE_SECONDS = 15.0
"""Seconds of silence after which an SSE comment is sent, while a request is queued or in prefill.
"""


def attach(app: FastAPI) -> None:
    app.add_middleware(ChatShape, max_bytes=MAX_BODY_BYTES)
    protect(app)
    app.include_router(router)
    app.add_exception_handler(ToolgateError, _error_response)


@router.api_route("/info", methods=["GET", "POST"])
async def info(raw_request: Request) -> Response:
    return _json(_service(raw_request).info())


@router.get("/status")
async def status(raw_request: Request) -> Response:
    return _json(await _service(raw_request).status())


@router.post("/grammars")
async def load_grammars(raw_request: Request) -> Response:
    return await _answered(wire.LoadGrammars, Service.load_grammars, raw_request)


@router.post("/count")
async def count(raw_request: Request) -> Response:
    return await _answered(wire.CountTokens, Service.count, raw_request)


@router.post("/generate")
async def generate(raw_request: Request) -> Response:
    """Request body `GenerateRequest`. The response is an SSE stream of StreamEvents, or an array of
    them with `stream=false`. With `prefill_only` it is a chat completion without choices."""
    request = await _message(wire.GenerateRequest, raw_request)
    if request.prefill_only:
        prefilled: Response = await _prefill(request, raw_request)
        return prefilled
    events = _service(raw_request).generate(request, raw_request.headers)
    if not request.stream:
        collected: Response = await _collect_events(events, raw_request)
        return collected
    # Wait for the first event before the response starts, so that an invalid request gets an HTTP
    # error instead of an error event.
    if request.batched:
        events = batched(events)
    first = await anext(events)
    return EventStreamResponse(_sse(first, events), KEEPALIVE_SECONDS)


@with_cancellation  # type: ignore[misc]
async def _prefill(request: wire.GenerateRequest, raw_request: Request) -> Response:
    return JSONResponse(await _service(raw_request).prefill(request, raw_request.headers))


@with_cancellation  # type: ignore[misc]
async def _collect_events(
    events: AsyncGenerator[wire.StreamEvent, None], raw_request: Request
) -> Response:
    async with aclosing(events):
        collected = [event async for event in events]
    return Response(wire.stream_events.dump_json(collected), media_type="application/json")


async def _sse(
    first: wire.StreamEvent, events: AsyncGenerator[wire.StreamEvent, None]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        yield _data(first)
        try:
            async for event in events:
                yield _data(event)
        except Exception as error:  # noqa: BLE001 - sent as an event: the status is already out
            yield _data(_error_event(error))


def _error_event(error: Exception) -> wire.ErrorEvent:
    if not isinstance(error, ToolgateError):
        logger.error("Toolgate: the stream failed: %s", type(error).__name__)
        error = _as_toolgate(error)
    return wire.ErrorEvent(status=error.status, error=error.body()["error"])


def _as_toolgate(error: Exception) -> ToolgateError:
    if isinstance(error, GracefulHTTPError):  # vLLM's own limit on queued requests
        return BackendUnavailable(str(error))
    if isinstance(error, GenerationError) and error.status_code == 503:  # its engine is paused
        return BackendUnavailable(str(error))
    if isinstance(error, EngineDeadError):
        return BackendFailed(
            "vLLM's engine died. Send the request again after the backend has restarted."
        )
    return BackendFailed("vLLM's engine failed during this request. Send the request again.")


def _data(event: wire.StreamEvent) -> bytes:
    return b"data: " + event.model_dump_json().encode() + b"\n\n"


Body = TypeVar("Body", bound=BaseModel)


async def _body(raw_request: Request) -> bytes:
    """Raise RequestTooLarge as soon as the body exceeds MAX_BODY_BYTES."""
    size, parts = 0, []
    async for part in raw_request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise RequestTooLarge(
                f"The body has more than {MAX_BODY_BYTES:,} bytes. Shorten the messages or reduce "
                "the images."
            )
        parts.append(part)
    return b"".join(parts)


async def _message(kind: type[Body], raw_request: Request) -> Body:
    """Return the message of a request: in the shape of a chat completion, or its fields alone."""
    shaped = raw_request.scope.get(SHAPED)
    try:
        if shaped is not None:
            return kind.model_validate(message_in(shaped))
        return kind.model_validate_json(await _body(raw_request))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"{where}: {first['msg']}.", param=where) from error


async def _answered(
    kind: type[Body], answer: Callable[[Service, Body], Awaitable[BaseModel]], raw_request: Request
) -> Response:
    message = await _message(kind, raw_request)
    return _json(await answer(_service(raw_request), message))


def _service(raw_request: Request) -> Service:
    service: Service = raw_request.app.state.toolgate
    return service


def _json(body: BaseModel) -> Response:
    return Response(body.model_dump_json(), media_type="application/json")


async def _error_response(_: Request, error: Exception) -> Response:
    assert isinstance(error, ToolgateError)
    return JSONResponse(error.body(), status_code=error.status)


COMMENT = b": keep-alive\n\n"


class EventStreamResponse(StreamingResponse):
    """A stream of server-sent events, with a keep-alive comment after each `seconds` without one.

    One task for each stream watches for silence. A wait with a time-out for each event would need a
    task for each event, which is most of an event's cost."""

    def __init__(self, events: AsyncGenerator[bytes, None], seconds: float) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._events = events
        self._seconds = seconds
        self._sent = False

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        watch = asyncio.create_task(self._watch(send))
        try:
            async with aclosing(self._events):
                async for event in self._events:
                    self._sent = True
                    await _write(send, event)
        finally:
            watch.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _watch(self, send: Send) -> None:
        while True:
            self._sent = False
            await asyncio.sleep(self._seconds)
            if not self._sent:
                await _write(send, COMMENT)


async def _write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


OPEN = ("/health", "/ping")
"""Probes, which often cannot send a key. They only report whether the engine runs."""


def protect(app: FastAPI) -> None:
    """Require vLLM's API key, if there is one, on every route, also on those of other plug-ins."""
    if keys := [key for key in (app.state.args.api_key or [os.environ.get("VLLM_API_KEY")]) if key]:
        app.add_middleware(KeyMiddleware, keys=keys)


class KeyMiddleware:
    """Answers requests without one of `keys` with 401. The scrapers' token opens the metrics."""

    def __init__(self, app: ASGIApp, keys: list[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]
        token = settings().metrics_token
        self._scrapers = [token.get_secret_value().encode()] if token else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._admits(scope):
            await self._app(scope, receive, send)
        else:
            await JSONResponse({"error": "Unauthorized"}, 401)(scope, receive, send)

    def _admits(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in OPEN:
            return True
        scheme, _, sent = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        accepted = [*self._keys, *self._scrapers] if path == "/metrics" else self._keys
        equal = [compare_digest(sent, each) for each in accepted]
        return scheme.lower() == b"bearer" and any(equal)
