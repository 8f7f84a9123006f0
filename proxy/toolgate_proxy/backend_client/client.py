"""The seam to a backend: everything the gateway asks of one passes through `Backend`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from pydantic import SecretStr, ValidationError
from pydantic_core import PydanticSerializationError

from toolgate_core import wire
from toolgate_core.error_body import from_body
from toolgate_core.errors import BackendFailed, InvalidRequest, ToolgateError

from ..settings import Settings
from .event_stream import EventStream
from .faults import backend_error, within

KEEPALIVE_EXPIRY = 4.0
"""Seconds an idle connection is kept. vLLM closes them after 5 (VLLM_HTTP_TIMEOUT_KEEP_ALIVE); one
that is let go earlier here can't be closed there just as a request is written to it."""


class Backend:
    """One backend, by its base URL. `transport` lets tests stand in for the network."""

    def __init__(
        self,
        base_url: str,
        key: SecretStr | None,
        settings: Settings,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = settings
        self._http = httpx.AsyncClient(
            base_url=base_url.rstrip("/").removesuffix("/v1"),
            headers={"Authorization": f"Bearer {key.get_secret_value()}"} if key else {},
            # Reads are timed by `_within`: httpx knows one read timeout, and the wait for a first
            # token and the wait for the next are different matters.
            timeout=httpx.Timeout(settings.connect_timeout, read=None),
            transport=transport or _transport(settings),
            trust_env=False,
        )
        self._info: wire.Info | None = None
        self._info_at = 0.0
        self._asking: asyncio.Task[wire.Info] | None = None

    async def info(self) -> wire.Info:
        """What the backend is, asked again when that is older than the setting `info_ttl`.

        Raises BackendFailed when it speaks another version of the wire format.
        """
        if self._info is not None and time.monotonic() - self._info_at < self._settings.info_ttl:
            return self._info
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_for_all())
        # Shielded: who asked first may hang up while others wait for the answer.
        return await asyncio.shield(self._asking)

    async def probe(self) -> None:
        """Asks whether it is there, and what it is. Raises what keeps it from answering."""
        await self._ask_info()

    def forget_info(self) -> None:
        """Called where the backend may have been restarted, perhaps with another model."""
        self._info = None

    async def load_grammars(
        self, sources: Iterable[wire.GrammarSource], *, want_blobs: bool = False
    ) -> tuple[wire.GrammarVerdict, ...]:
        """Compiles and loads. One verdict for each source, in any order."""
        message = wire.LoadGrammars(grammars=tuple(sources), want_blobs=want_blobs)
        answer = await self._json("PUT", "/v1/toolgate/grammars", message)
        try:
            return wire.GrammarVerdicts.model_validate(answer).grammars
        except ValidationError as error:
            raise BackendFailed("The backend's answer about grammars is not understood.") from error

    async def generate(
        self, request: wire.GenerateRequest, deadline: float | None = None
    ) -> EventStream:
        """Begins an answer; raises what the backend refused it with, GrammarUnknown among it.

        `deadline`, by time.monotonic, is that of the answer which this one goes on with. The stream
        must be closed. Closing it before its end makes the backend stop generating.
        """
        if deadline is None:
            deadline = time.monotonic() + self._settings.request_timeout
        begin_by = deadline
        if request.stream:
            begin_by = min(deadline, time.monotonic() + self._settings.first_token_timeout)
        limit = begin_by - time.monotonic()
        response = await self._send("POST", "/v1/toolgate/generate", request, limit)
        return EventStream(response, request, self._settings.idle_timeout, deadline, begin_by)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _ask_for_all(self) -> wire.Info:
        try:
            return await self._ask_info()
        finally:
            self._asking = None

    async def _ask_info(self) -> wire.Info:
        try:
            self._info = _checked_info(await self._json("GET", "/v1/toolgate/info"))
            self._info_at = time.monotonic()
            return self._info
        except InvalidRequest as error:
            raise BackendFailed(
                "The server behind this model does not answer as a toolgate backend; "
                "start it by `toolgate backend`."
            ) from error

    async def _json(self, method: str, path: str, message: wire.Message | None = None) -> Any:
        limit = self._settings.grammar_timeout
        response = await self._send(method, path, message, limit)
        try:
            async with within(limit, "answer"):
                await response.aread()
            return response.json()
        except ValueError as error:
            raise BackendFailed(
                f"The backend answered {path} with something else than JSON."
            ) from (error)
        finally:
            await response.aclose()

    async def _send(
        self, method: str, path: str, message: wire.Message | None, limit: float
    ) -> httpx.Response:
        """The response, its body still to be read; one that is no success raises its error."""
        content = _json_of(message) if message else None
        headers = {"Content-Type": "application/json"} if message else None
        request = self._http.build_request(method, path, content=content, headers=headers)
        try:
            async with within(limit, "begin its answer", begun=False):
                response = await self._sent(request)
        except ToolgateError:
            self.forget_info()
            raise
        if response.is_success:
            return response
        try:
            async with within(self._settings.idle_timeout, "finish its answer"):
                await response.aread()
            raise self._error(response)
        finally:
            await response.aclose()

    async def _sent(self, request: httpx.Request) -> httpx.Response:
        """Connecting is tried twice, which repeats no request: a process that was held up for
        longer than the connect time-out finds it run out, though the backend had answered at
        once."""
        try:
            return await self._http.send(request, stream=True)
        except httpx.ConnectTimeout as error:
            if not isinstance(error.__cause__, aiohttp.ConnectionTimeoutError):
                raise
            return await self._http.send(request, stream=True)

    def _error(self, response: httpx.Response) -> ToolgateError:
        status = response.status_code
        if status == 409 or status >= 500:
            self.forget_info()
        if status in (401, 403):
            # Its body speaks of a wrong key; to our client that would mean the client's own.
            return from_body(status, None)
        return backend_error(status, _body(response))


def _transport(settings: Settings) -> httpx.AsyncBaseTransport:
    """aiohttp's connections, whose parser is C: httpcore's take the gateway three times as long."""
    limits = httpx.Limits(
        max_connections=settings.max_connections, keepalive_expiry=KEEPALIVE_EXPIRY
    )
    return AiohttpTransport(limits=limits, trust_env=False)


def _checked_info(answer: object) -> wire.Info:
    spoken = answer.get("format") if isinstance(answer, dict) else None
    if spoken != wire.FORMAT:
        raise BackendFailed(
            f"The backend speaks version {spoken!r} of the wire format, this gateway version "
            f"{wire.FORMAT}: install the same release of toolgate on both."
        )
    try:
        return wire.Info.model_validate(answer)
    except ValidationError as error:
        raise BackendFailed("What the backend says of itself is not understood.") from error


def _json_of(message: wire.Message) -> str:
    """Raises InvalidRequest for what a client sent and JSON has no way to say: pydantic nests some
    250 levels, where what a request's fields hold is not bounded."""
    try:
        return message.model_dump_json(exclude_none=True)
    except PydanticSerializationError as error:
        raise InvalidRequest(
            "The request can't be sent on as JSON: something in it is nested too deeply or is no "
            "valid Unicode; look at messages, tools and chat_template_kwargs."
        ) from error


def _body(response: httpx.Response) -> object:
    try:
        return response.json()
    except ValueError:
        return response.text
