"""The hooks of callbacks and guardrails around the response to one request: those that run while it
is made, and those that read and change it before it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ToolgateError

from ...api.surface import Whole
from ...state import gateway
from ..errors import own_error, own_errors
from .request_data import RequestData
from .response_hooks import ResponseHooks, hooks


class ResponseGuard:
    def __init__(self, data: RequestData) -> None:
        self._data = data
        self._moderations: list[asyncio.Task[None]] = []
        self.has_refused = False
        """A hook failed or refused the request or the response. No other model gets it."""
        self.shown: Mapping[str, Any] | None = None
        """The body of the whole response as the hooks left it."""

    def start(self) -> None:
        """Start the hooks that run while the response is made. They run again for a fallback that
        has guardrails of its own."""
        moderation = asyncio.create_task(self._moderated())
        moderation.add_done_callback(_retrieve)
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

    async def body(self, whole: Whole, model: str, request: ChatRequest) -> Mapping[str, Any]:
        """Return the body of a whole response as the hooks leave it. It is stored if they change
        nothing. `model`: its name in the router. Raise ToolgateError."""
        with self.noting_refusals():
            await self._require_moderated()
            body = whole.body()
            self.shown = await self._hooks(model, request).whole(body)
        if self.shown is not body:
            return self.shown
        await whole.keep()
        return whole.body()

    async def stream(
        self,
        frames: AsyncGenerator[bytes, None],
        whole: Callable[[], Whole],
        model: str,
        request: ChatRequest,
    ) -> AsyncGenerator[bytes, None]:
        """Yield a stream as the hooks leave it. `whole` makes the whole response at its end. It is
        stored if they change nothing. Raise ToolgateError."""
        response_hooks = self._hooks(model, request)
        with self.noting_refusals():
            await self._require_moderated()
        try:
            async with aclosing(response_hooks.stream(frames, whole)) as stream:
                async for data in stream:
                    yield data
        except Exception as error:
            self.has_refused = response_hooks.error is None
            raise own_error(error) from error

    def _hooks(self, model: str, request: ChatRequest) -> ResponseHooks:
        validators, owner = gateway().engine.validators, self._data.context.sender
        return ResponseHooks(self._data, model, request, validators, owner)

    async def _moderated(self) -> None:
        await hooks().during_call_hook(
            data=await self._data.prepared(),
            user_api_key_dict=self._data.caller,
            call_type=self._data.call_type,
        )

    async def _require_moderated(self) -> None:
        for moderation in self._moderations:
            await moderation


def _retrieve(moderation: asyncio.Task[None]) -> None:
    """Keep asyncio from logging the exception of a request that has ended before."""
    if not moderation.cancelled():
        moderation.exception()
