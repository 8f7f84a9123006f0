"""Compacts a conversation before the response to it, if its request asks for this and it is long.

The summary is written first, at the same backend. A compaction that fails ends the request with an
error, before its first event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from toolgate_core.chat_request import ChatRequest
from toolgate_core.context_edits import Compaction
from toolgate_core.deltas import Finish
from toolgate_core.errors import ContextLengthExceeded, InvalidRequest

from ...chat import tool_loop
from ...chat.engine import Run
from ...chat.response import ChatResponse, ResponseEvent
from .compacted import PAUSED, Compacted, Division, divided, divided_whole
from .summary import (
    PART_OF_LIMIT,
    check_coverage,
    limit_of,
    summary_of,
    summary_request,
    summary_tokens,
)

Events = AsyncIterator[list[ResponseEvent]]


@asynccontextmanager
async def respond(
    rule: Compaction, run: Run, request: ChatRequest
) -> AsyncIterator[tuple[ChatResponse, Events]]:
    """Yield the response and its events in batches, as `tool_loop.respond` does. The first event
    is Compacted if the conversation was compacted. `rule`: when it is."""
    meter = run.context.meter
    meter.begin_counting()
    request = await run.edited(request)
    info = await run.deployment.backend.info()
    compacting = _Compacting(run, request, rule, info.limits.max_model_len)
    division = await compacting.division()
    if division is None:
        async with tool_loop.respond(run, request) as responding:
            yield responding
        return
    made, response = await compacting.done(division)
    if rule.pauses:
        yield response, _alone(made)
        return
    meter.begin_generation()
    used = response.earlier
    shorter = _continued(request, made)
    async with tool_loop.respond(run, shorter) as (response, events):
        response.earlier = used
        yield response, _preceded(made, events)


@dataclass(frozen=True)
class _Compacting:
    run: Run
    request: ChatRequest
    """Its edits are applied."""
    rule: Compaction
    context_length: int

    @property
    def limit(self) -> int | None:
        return limit_of(self.rule, self.request, self.context_length)

    async def division(self) -> Division | None:
        """Return the part that is replaced; None if the conversation stays as it is. Raise
        InvalidRequest if it must be compacted and has nothing to replace."""
        limit, messages = self.limit, self.request.messages
        if limit is None:
            found = divided_whole(messages)
            if found is None:
                raise InvalidRequest(
                    "The conversation can't be compacted, because 'messages' has nothing that a "
                    "summary could replace. Send the conversation.",
                    param="messages",
                )
            return found
        if limit <= 0:
            return None
        found = divided(messages, limit // PART_OF_LIMIT)
        if found is None or not await self._exceeds(limit):
            return None
        # After a pause, the client decides what follows the summary.
        return divided_whole(messages) if self.rule.pauses else found

    async def done(self, division: Division) -> tuple[Compacted, ChatResponse]:
        """Return the compacted conversation, and a response without events and tokens of its own.
        Raise ToolgateError if the summary fails."""
        request, rule, context = self.request, self.rule, self.run.context
        tokens = summary_tokens(request, self.limit, self.context_length)
        asked = summary_request(request, rule, division.end, tokens)
        if not rule.pauses:
            asked = replace(asked, request_id=f"{request.request_id}-summary")
        writing, generation = await self.run.begin(asked)
        events: list[ResponseEvent] = []
        async with aclosing(generation.read(writing, context)) as batches:
            async for batch in batches:
                check_coverage(asked, writing.request)
                if context.caller.require_key is not None:
                    context.caller.require_key()
                events += batch
        recent = tuple(
            request.messages[at]
            for at in division.recent
            if not (rule.keeps_users and request.messages[at]["role"] == "user")
        )
        made = Compacted(summary_of(events, tokens), recent, rule.keeps_users, rule.pauses)
        self.run.keep(generation)
        validators = self.run.engine.validators
        response = generation.response(validators, context.caller.sender, 0)
        response.request, response.earlier = request, writing.counts
        return made, response

    async def _exceeds(self, limit: int) -> bool:
        """Return whether the prompt has more tokens."""
        try:
            return await self.run.count(self.request) > limit
        except ContextLengthExceeded:
            return True


def _continued(request: ChatRequest, made: Compacted) -> ChatRequest:
    """Return the request with the compacted conversation."""
    stays = made.remaining([message["role"] for message in request.messages])
    added = made.messages()
    paths = request.message_paths
    last = paths[-1:] * len(added)
    return replace(
        request,
        messages=(*(request.messages[at] for at in stays), *added),
        message_paths=(*(paths[at] for at in stays), *last) if paths else paths,
    )


async def _alone(made: Compacted) -> Events:
    yield [ResponseEvent(0, made), ResponseEvent(0, Finish(PAUSED))]


async def _preceded(made: Compacted, events: Events) -> Events:
    """Yield `made` with the first event, until which the request can still move."""
    waiting = [ResponseEvent(0, made)]
    async for batch in events:
        yield [*waiting, *batch] if batch else batch
        waiting = waiting if not batch else []
