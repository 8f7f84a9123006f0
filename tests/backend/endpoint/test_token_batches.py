"""Batches have the tokens of their events, and nothing is held back at an end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from toolgate_backend.endpoint.token_stream import batched
from toolgate_core.wire import (
    EndEvent,
    StartEvent,
    StreamEvent,
    TokenLogprob,
    TokensEvent,
    UsageEvent,
)

START = StartEvent(prompt_tokens=20, reasoning_open=False)
USAGE = UsageEvent(prompt_tokens=20, completion_tokens=7)


def tokens(choice: int, *ids: int, cached: int | None = None) -> TokensEvent:
    return TokensEvent(
        choice=choice,
        ids=ids,
        texts=tuple(f"{each} " for each in ids),
        logprobs=tuple(TokenLogprob(token="t", bytes=(1,), logprob=-each) for each in ids),
        cached_tokens=cached,
    )


def end(choice: int) -> EndEvent:
    return EndEvent(choice=choice, finish_reason="stop")


EVENTS = [
    START,
    tokens(0, 1, cached=16),
    tokens(1, 2),
    tokens(0, 3, 4),
    tokens(1, 5),
    end(1),
    tokens(0, 6),
    tokens(0, 7),
    end(0),
    USAGE,
]


async def sent(events: Sequence[StreamEvent], seconds: float) -> list[StreamEvent]:
    async def source() -> AsyncGenerator[StreamEvent, None]:
        for event in events:
            yield event

    return [event async for event in batched(source(), seconds)]


async def test_the_tokens_after_the_first_are_one_event_of_each_choice() -> None:
    assert await sent(EVENTS, 60) == [
        START,
        tokens(0, 1, cached=16),
        tokens(1, 2, 5),
        tokens(0, 3, 4),
        end(1),
        tokens(0, 6, 7),
        end(0),
        USAGE,
    ]


async def test_tokens_without_logprobs_have_none_in_a_batch() -> None:
    plain = [START, *(TokensEvent(choice=0, ids=(each,), texts=("t",)) for each in range(3))]
    *_, joined, last = await sent([*plain, end(0)], 60)
    assert joined == TokensEvent(choice=0, ids=(1, 2), texts=("t", "t"))
    assert last == end(0)


async def test_nothing_is_joined_beyond_the_time_of_a_batch() -> None:
    assert await sent(EVENTS, 0) == EVENTS


async def test_an_abandoned_response_closes_its_source() -> None:
    closed = False

    async def source() -> AsyncGenerator[StreamEvent, None]:
        nonlocal closed
        try:
            for event in EVENTS:
                yield event
        finally:
            closed = True

    events = batched(source(), 60)
    assert await anext(events) == START
    await events.aclose()
    assert closed
