"""What LiteLLM's callbacks get of a request on our own route: here of one that nobody observes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from toolgate_core.errors import ToolgateError

from ...api.surface import ApiResponse
from ...chat.failover import Events
from ...context import Guard
from ...request.chat_request import ChatRequest
from .router import Row, SlotHolder


class Observer:
    reads = False
    """Hooks read or change the response before it is sent."""

    @property
    def has_refused(self) -> bool:
        """Whether a hook failed or refused the request or the response. No other model gets it."""
        return False

    @property
    def stays(self) -> bool:
        """Whether the key or its team allows no fallbacks."""
        return False

    async def before(self, body: Mapping[str, Any], guardrails: Sequence[Any]) -> Mapping[str, Any]:
        """Return the body as the hooks before a request leave it. `guardrails`: of the model. Raise
        ToolgateError."""
        return body

    def start(self) -> None:
        """Start the hooks that run while the response is made."""

    async def at_model(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body for the model of ours at which the request is. If it is a fallback with
        guardrails or texts that the hooks have not seen, they run again. Raise ToolgateError."""
        return body

    async def choose(self, messages: object, hold_slot: SlotHolder, held: ExitStack) -> Row:
        """Return the deployment that LiteLLM's router selects by limits, tags, order and strategy.
        `held` gets its slot."""
        raise AssertionError("a model whose strategy is None is observed")

    def note_deployment(self, row: Row) -> None:
        """Note the deployment."""

    async def before_deployment(self, body: Mapping[str, Any], row: Row) -> Mapping[str, Any]:
        """Return the body as the hooks before a deployment leave it, for the same model and
        streamed like it. Raise ToolgateError."""
        return body

    async def guard(self, body: Mapping[str, Any]) -> Guard | None:
        """Return what shows texts that come into the prompt late to guardrails; None: there are
        none. `body`: as the hooks left it."""
        return None

    async def note_answer(self, row: Row, *, stream: bool) -> None:
        """Note the deployment that answers, and LiteLLM's headers of a stream."""

    def begin(self, response: ApiResponse) -> None:
        """Note that a backend responds."""

    async def with_cost(self, events: bytes) -> bytes:
        """Return events of a stream, with the cost in their usage if LiteLLM's settings ask for
        it."""
        return events

    def frames(
        self, stream: ApiResponse, events: Events, request: ChatRequest
    ) -> AsyncGenerator[bytes, None]:
        """Yield a stream that hooks read, as they leave it. Raise ToolgateError."""
        raise AssertionError("no hook reads the response")

    async def show_whole(self, whole: ApiResponse, request: ChatRequest) -> Mapping[str, Any]:
        """Return the body of a whole response as the hooks leave it, and store it. Raise
        ToolgateError."""
        await whole.keep()
        return whole.body()

    async def replace_error(self, error: ToolgateError) -> ToolgateError:
        """Return the error that a hook returns instead, or `error`."""
        return error

    def restart(self) -> None:
        """Forget a response, since the request is sent again."""

    async def fallback_failed(self, model: str) -> None:
        """Create LiteLLM's event of a fallback that failed. Never raises."""

    async def report_fallback(self, failed: str, error: ToolgateError) -> None:
        """Create the failure event of a model, after which the request is at a fallback. Never
        raises."""

    def report(self, failed: ToolgateError | None, *, begun: bool) -> None:
        """Create the log event in the background. A response that the client left after it had
        `begun` counts as a success, with what was generated, as a stream in LiteLLM."""


UNOBSERVED = Observer()
