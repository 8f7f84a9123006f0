"""The spans of one request to a backend: loading of its grammars, and the generation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from toolgate_core import wire
from toolgate_core.errors import ToolgateError

from .. import tracing
from ..backend_client.client import Backend
from ..backend_client.event_stream import EventStream
from ..grammars.service import LoadedGrammars


@contextmanager
def grammars(number: int) -> Iterator[Callable[[LoadedGrammars], None]]:
    """Yields a function that takes the result. Without grammars, there is no span."""
    span = tracing.begin("toolgate.grammars") if number else tracing.NONE

    def note(loaded: LoadedGrammars) -> None:
        span.set({"toolgate.grammars": number, "toolgate.grammar_tier": loaded.tier})

    try:
        with span.current(), _failing(span):
            yield note
    finally:
        span.end()


async def begun(
    backend: Backend, message: wire.GenerateRequest, deadline: float | None
) -> tuple[tracing.Span, EventStream]:
    """The generation and its span, which ends with the generation's events."""
    span = tracing.begin(
        f"chat {message.model}",
        "client",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "vllm",
            "gen_ai.request.model": message.model,
            "gen_ai.request.max_tokens": message.sampling.max_tokens,
            "gen_ai.request.temperature": message.sampling.temperature,
            "gen_ai.request.top_p": message.sampling.top_p,
            "gen_ai.request.choice.count": message.sampling.n,
        },
    )
    try:
        with span.current(), _failing(span):
            return span, await backend.generate(message, deadline)
    except BaseException:
        span.end()
        raise


@asynccontextmanager
async def ending(span: tracing.Span) -> AsyncIterator[None]:
    """Ends the span. An error of the generation is its status."""
    try:
        with _failing(span):
            yield
    finally:
        span.end()


@contextmanager
def _failing(span: tracing.Span) -> Iterator[None]:
    try:
        yield
    except ToolgateError as error:
        span.fail(error.code or type(error).__name__)
        raise
