"""HTTP client of one backend. All requests from the gateway to a backend go through `Backend`."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import aiohttp
from pydantic import SecretStr, ValidationError
from pydantic_core import from_json

from toolgate_core import tracing, wire
from toolgate_core.chat_shape import MEMBER, PATH
from toolgate_core.error_body import from_body
from toolgate_core.errors import (
    BackendFailed,
    BackendTimeout,
    FingerprintMismatch,
    InvalidRequest,
    ToolgateError,
)

from .. import metrics
from ..background import without_owner
from ..discovery import PinnedResolver, addressed, without_password
from ..settings import Settings
from .body import GRAMMARS, SMALL, Body, Bound, BoundedResponse, bound_of, fitting
from .event_stream import EventStream
from .faults import SAME_RELEASE, backend_error, repeats, unresponsive, within
from .message_json import Pieces, encoded
from .replicas import Replicas

IDLE_SECONDS = 120.0
"""Time limit without any data from a backend during a response. Its keep-alives count as data."""
KEEPALIVE_SECONDS = 4.0
"""Seconds an idle connection is kept. vLLM closes idle connections after 5 seconds
(VLLM_HTTP_TIMEOUT_KEEP_ALIVE). Closing them here first means that no request is written to a
connection that the backend is just closing."""
MAX_CONNECTIONS = 2048
"""To one backend. Each active request uses one, and by default a backend accepts no more requests
than this (its TOOLGATE_MAX_REQUESTS)."""
CONNECT_TIMEOUT = 5.0
"""Seconds for opening a connection: several retransmissions of its first packet."""
GRAMMAR_TIMEOUT = 60.0
"""Seconds for a backend's response about grammars. It is longer than the backend needs to refuse a
schema that takes too long (WALL_SECONDS of its quarantine)."""
INFO_TTL = 15.0
"""Seconds for which a backend's description of itself is used. A backend that has another one, as
after a restart with another model, refuses requests (409), which ends it at once."""
INFO_TIMEOUT = 10.0
"""Seconds for a backend's description. It needs no computation, so a backend that takes longer does
not respond; as nothing was asked of it yet, another one can serve the request."""
RESEND_PAUSE = 0.1
"""Seconds before a message is sent again for the second time to an address whose replicas left."""
SESSION_TEXT = 20_000
"""Characters of a conversation's begin that tell it from others."""
READ_BUFFER_BYTES = 128 * 1024
"""aiohttp stops reading from the backend at twice this size until the client has caught up."""


M = TypeVar("M", bound=wire.Message)


class Backend:
    """Client of the backend at `base_url`. Use it within one event loop."""

    def __init__(
        self, base_url: str, key: SecretStr | None, settings: Settings, model: str = ""
    ) -> None:
        """`model`: its name at the backend, for routers that choose a backend by it. It is used
        until the backend has reported its own."""
        self._settings = settings
        self._model = model
        url, self._pinned = addressed(base_url)
        self._base_url = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Accept-Encoding": "identity"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key.get_secret_value()}"
        self._session: aiohttp.ClientSession | None = None
        self.last_info: wire.Info | None = None
        """The description of the last response, which may be old; None before the first one."""
        self._info_until = 0.0
        self._info_request: asyncio.Task[wire.Info] | None = None
        self._seals = False
        """Whether messages are sealed: a router has rewritten one."""
        self.replicas = Replicas(without_password(base_url))

    async def info(self) -> wire.Info:
        """Return the backend's description, cached for `INFO_TTL`.

        Raise BackendFailed when the backend speaks another version of the wire format."""
        if self.last_info is not None and time.monotonic() < self._info_until:
            return self.last_info
        if self._info_request is None or self._info_request.done():
            self._info_request = asyncio.create_task(self._fetch_info())
            without_owner(self._info_request)
        # Shielded: the caller that started the request may be cancelled while others await it.
        return await asyncio.shield(self._info_request)

    async def probe(self) -> int | None:
        """Request the backend's description. Return the number of its in-flight requests, if it
        reports them. Raise the error if there is no valid response."""
        return (await self._fetch_info()).in_flight

    def forget_info(self) -> None:
        """Drop the cached description: a replica has another one."""
        self._info_until = 0.0

    async def load_grammars(
        self, sources: Iterable[wire.GrammarSource], info: wire.Info
    ) -> tuple[wire.GrammarVerdict, ...]:
        """Compile and load grammars. Return one verdict for each source, in any order. `info`: the
        description on which the sources are based."""
        message = wire.LoadGrammars(grammars=tuple(sources), fingerprint=info.fingerprint)
        verdicts = await self._json("grammars", message, GRAMMARS)
        return _checked(wire.GrammarVerdicts, verdicts, "a grammar load").grammars

    async def count(self, request: wire.CountTokens) -> int:
        """Return the number of tokens of a prompt. Raise the backend's refusal."""
        counted = await self._json("count", request)
        return _checked(wire.TokenCount, counted, "a count of tokens").tokens

    async def generate(
        self, request: wire.GenerateRequest, deadline: float | None = None
    ) -> EventStream:
        """Start a generation. Raise the backend's refusal, for example GrammarsRefused.

        `deadline` (time.monotonic) is set for a request that continues an earlier one. The caller
        must close the stream. Closing it early makes the backend stop generating.
        """
        if deadline is None:
            deadline = time.monotonic() + self._settings.request_timeout
        request = fitting(request, self.last_info)
        begin_by = deadline
        if request.stream:
            begin_by = min(deadline, time.monotonic() + self._settings.first_token_timeout)
        limit = begin_by - time.monotonic()
        response = await self._send("generate", request, limit)
        bound, idle = bound_of(request, self.last_info), IDLE_SECONDS
        try:
            return EventStream(
                response, request, bound, idle, deadline, begin_by, self.replicas.note
            )
        except BackendFailed:
            response.close()
            raise

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _fetch_info(self) -> wire.Info:
        try:
            info = _checked_info(await self._json("info", limit=INFO_TIMEOUT))
            self.last_info, self._info_until = info, time.monotonic() + INFO_TTL
            self.replicas.note(info)
            return info
        except BackendTimeout as error:
            raise unresponsive() from error
        except InvalidRequest as error:
            raise BackendFailed(
                "The server behind this model is not a Toolgate backend. Start it with "
                "`toolgate backend`."
            ) from error

    async def _json(
        self,
        op: str,
        message: wire.Message | None = None,
        bound: Bound = SMALL,
        limit: float | None = None,
    ) -> Any:
        """Return the JSON body of a response. `limit`: in seconds, for the begin and again for the
        end of the response."""
        limit = limit or GRAMMAR_TIMEOUT
        response = await self._send(op, message, limit)
        try:
            body = Body(response, bound)
            content = await within(body.whole(), limit, "finish its response")
            return await body.parsed(content, from_json)
        except ValueError as error:
            raise BackendFailed(f"The backend's response to {op!r} is not JSON.") from error
        finally:
            response.close()

    async def _send(
        self, op: str, message: wire.Message | None, limit: float
    ) -> aiohttp.ClientResponse:
        """Return the response, its body not read yet. Raise the error of an unsuccessful one."""
        model, limits = self._model, None
        if self.last_info is not None:
            model, limits = self.last_info.model, self.last_info.limits
        content = encoded(op, message, model, limits, sealed=self._seals)
        session = session_of(message) if isinstance(message, wire.GenerateRequest) else ""
        due, repeated = time.monotonic() + limit, 0
        while True:
            try:
                return await self._sent(content, session, due - time.monotonic())
            except ToolgateError as error:
                if repeated >= repeats(error):
                    raise
            metrics.RESENT.inc()
            await asyncio.sleep(repeated * RESEND_PAUSE)
            repeated += 1

    async def _sent(
        self, content: bytes | Pieces, session: str, limit: float
    ) -> aiohttp.ClientResponse:
        """As `_send`, without sending again."""
        headers = tracing.outgoing() | {"Content-Type": "application/json"}
        if session:
            headers["x-session-id"] = session
        url = self._base_url + PATH
        sent = self._open_session().post(url, data=content, headers=headers, allow_redirects=False)
        response = await within(sent, limit, "start its response", begun=False)
        if 200 <= response.status < 300:
            return response
        try:
            body = Body(response, SMALL)
            refusal = await within(body.whole(), IDLE_SECONDS, "finish its response")
            raise self._error(response.status, await body.parsed(refusal, _parsed))
        finally:
            response.close()

    def _open_session(self) -> aiohttp.ClientSession:
        """Return the session, created on first use because aiohttp needs a running event loop."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=MAX_CONNECTIONS,
                    keepalive_timeout=KEEPALIVE_SECONDS,
                    resolver=None if self._pinned is None else PinnedResolver(self._pinned),
                ),
                headers=self._headers,
                # `within` times reads: the limits for the first token and for the next one differ.
                timeout=aiohttp.ClientTimeout(
                    total=None, connect=CONNECT_TIMEOUT, sock_connect=CONNECT_TIMEOUT
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                response_class=BoundedResponse,
                auto_decompress=False,  # a small body may have any size without compression
                read_bufsize=READ_BUFFER_BYTES,
                trust_env=False,
            )
        return self._session

    def _error(self, status: int, body: object) -> ToolgateError:
        if status == 409:
            self.forget_info()
        if status in (401, 403):
            # The body reports an invalid key. Our client would take that for its own key.
            return from_body(status, None)
        error = backend_error(status, body)
        self._seals |= isinstance(error, FingerprintMismatch) and error.param == MEMBER
        return error


def session_of(message: wire.GenerateRequest) -> str:
    """Return a name for the conversation of an owner, by which routers send it to one replica."""
    prompt = message.prompt
    if not isinstance(prompt, wire.ChatPrompt):
        return ""
    begin = [str(message.cache_salt), message.model]
    for entry in prompt.messages:
        begin += _texts(entry.get("content"))
        if entry.get("role") == "user":
            break
    text = repr(begin)[:SESSION_TEXT]
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


def _texts(content: object) -> Iterator[str]:
    """Yield the texts of a message, or what they begin with: some have many megabytes."""
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text[:SESSION_TEXT]


def _checked(model: type[M], body: object, what: str) -> M:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise BackendFailed(
            f"The backend's response to {what} is invalid. {SAME_RELEASE}"
        ) from error


def _checked_info(body: object) -> wire.Info:
    version = body.get("format") if isinstance(body, dict) else None
    if version != wire.FORMAT:
        raise BackendFailed(
            f"The backend speaks version {version!r} of the wire format, this gateway version "
            f"{wire.FORMAT}. {SAME_RELEASE}"
        )
    return _checked(wire.Info, body, "'info'")


def _parsed(body: bytes | bytearray) -> object:
    """Return the JSON value, or the beginning of a text."""
    try:
        return from_json(body)
    except ValueError:
        return body[:1000].decode(errors="replace")
