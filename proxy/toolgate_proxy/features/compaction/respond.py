"""Compacts a conversation before the response to it, if its request asks for this and it is long.

The summary is written first, at the same backend. A compaction that fails ends the request with an
error, before its first event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace

from toolgate_core.deltas import ContentDelta, Finish
from toolgate_core.errors import CompactionFailed, ContextLengthExceeded, InvalidRequest

from ...chat import tool_loop
from ...chat.engine import EngineRun
from ...chat.preparation import HEAD
from ...chat.response import ChatResponse, ResponseEvent
from ...request.chat_request import ChatRequest, Extras, Shortener
from .compacted import PAUSED, Division, Message, Summary, divided, divided_whole, text_after
from .edits import AppliedEdit, ClearToolUses, ContextEdit, edited


@dataclass(frozen=True)
class Compaction:
    """Replace the conversation so far by a summary that the model writes."""

    trigger: int | None = None
    """A prompt with more tokens is compacted, and one that leaves no room for the response. None:
    each prompt."""
    pauses: bool = False
    """Whether the response has the summary only."""
    keeps_users: bool = False
    """Whether the client keeps the messages of users. They then stay before the summary."""
    instructions: str = ""
    """What the summary must have besides."""


ASKED = """\
The conversation so far takes too much room. A summary will replace it, which you write now. You \
will continue the work with nothing but this summary and the latest messages.

Write down, as briefly as possible:
- what the user wants, in the user's own words where they matter, and every rule that still holds;
- what was done and found: decisions, facts, results of tools, and names, paths, numbers and \
identifiers exactly as they are;
- what failed, what is unfinished, and the next step.

Include the content of an earlier summary. Write at most {words} words. Your whole response is the \
summary: do not answer the user, do not call tools, do not comment on the summary.\
"""
ALSO = "\n\nFor this summary the following applies as well:\n{}"
WORDS_PER_TOKEN = 0.5
"""Fewer than a text has, so that the model is finished before its budget of tokens is."""
MAX_TOKENS = 4096
"""Most tokens of a summary."""
PART = 8
"""A summary has at most this part of the context."""
PART_OF_LIMIT = 4
"""Of the tokens above which a prompt is compacted, the summary has at most this part, and so do the
recent messages that stay."""
OWN_ARGUMENTS = (
    "add_generation_prompt",
    "continue_final_message",
    "enable_thinking",
    "reasoning_effort",
)
"""Arguments of the template that the request for a summary has in its own way."""
ROOM = ClearToolUses("", trigger=2**62, keep=0)
"""Without the results of calls, a conversation that exceeds the context may have room for its
summary."""


def asked(tokens: int, instructions: str) -> str:
    """Return the request for a summary of at most `tokens` tokens."""
    text = ASKED.format(words=max(1, int(tokens * WORDS_PER_TOKEN)))
    return text + ALSO.format(instructions) if instructions.strip() else text


def limit_of(rule: Compaction, request: ChatRequest, context: int) -> int | None:
    """Return the tokens above which a prompt is compacted: the trigger, or fewer if the response
    needs room. None: each prompt is. `context`: the model's, in tokens."""
    if rule.trigger is None:
        return None
    return min(rule.trigger, context - (request.sampling.max_tokens or 1))


def summary_tokens(request: ChatRequest, limit: int | None, context: int) -> int:
    """Return the budget of a summary. `limit`: as `limit_of` returned it."""
    most = min(MAX_TOKENS, context // PART)
    wanted = request.sampling.max_tokens or most if limit is None else limit // PART_OF_LIMIT
    return max(1, min(most, wanted))


def summary_request(request: ChatRequest, rule: Compaction, end: int, tokens: int) -> ChatRequest:
    """Return the request for a summary of the messages before the place `end`. Its prompt begins
    like that of the conversation, tools included, so that the prefix cache is used. It is
    deterministic if the conversation's request is."""
    messages = _asking(list(request.messages[:end]), asked(tokens, rule.instructions))
    paths = request.message_paths
    arguments = request.template_kwargs or {}
    kwargs = {name: value for name, value in arguments.items() if name not in OWN_ARGUMENTS}
    free = {
        "n": 1,
        "max_tokens": tokens,
        "min_tokens": 0,
        "stop_token_ids": (),
        "ignore_eos": False,
        "bad_words": (),
        "logit_bias": None,
        "logprobs": None,
        "logprob_token_ids": None,
        "prompt_logprobs": None,
        "allowed_token_ids": None,
    }
    return replace(
        request,
        messages=tuple(messages),
        message_paths=(*paths[:end], *paths[end - 1 : end])[: len(messages)],
        drop_oldest=True,
        gateway_tools={},
        tool_choice="none",
        reasoning="off",
        reasoning_budget=None,
        template_kwargs={**kwargs, "enable_thinking": False},
        sampling=request.sampling.model_copy(update=free),
        tokenizing=request.tokenizing.model_copy(update={"truncate_prompt_tokens": None}),
        content_format=None,
        stop=(),
        extras=Extras(tokens_as_ids=request.extras.tokens_as_ids),
        echo="",
    )


def _asking(messages: list[Message], text: str) -> list[Message]:
    if messages[-1]["role"] == "user":
        return [*messages[:-1], text_after(text, messages[-1])]
    return [*messages, {"role": "user", "content": text}]


def check_coverage(asked: ChatRequest, sent: ChatRequest) -> None:
    """Raise CompactionFailed if the whole conversation had to be dropped from the request for its
    summary."""
    dropped = len(sent.messages) < len(asked.messages)
    if dropped and all(message["role"] in HEAD for message in sent.messages[:-1]):
        raise CompactionFailed(
            "The conversation cannot be compacted: its turns are longer than the context. Shorten "
            "them in the client."
        )


def summary_of(events: Iterable[ResponseEvent], tokens: int) -> str:
    """Return the text of a complete response. `tokens`: its budget. Raise CompactionFailed."""
    texts: list[str] = []
    finish: Finish | None = None
    for each in events:
        match each.event:
            case ContentDelta(text):
                texts.append(text)
            case Finish() as finish:
                pass
    text = "".join(texts).strip()
    if finish is None or finish.reason == "length":
        raise _failed(f"it did not end within its budget of {tokens} tokens")
    if not text:
        raise _failed("it is empty")
    return text


def _failed(reason: str) -> CompactionFailed:
    return CompactionFailed(
        f"The conversation cannot be compacted: the model wrote a summary, but {reason}. Send the "
        "request again, or shorten the conversation in the client."
    )


Events = AsyncIterator[list[ResponseEvent]]


@dataclass
class Shortening(Shortener):
    """Shortens the conversation of one request: by edits, and then by a summary."""

    rule: Compaction | None = None
    """When the conversation is compacted; None: never."""
    edits: Sequence[ContextEdit] = ()
    applied: Sequence[AppliedEdit] = ()
    """Those that shortened the prompt."""

    async def edited(self, run: EngineRun, request: ChatRequest) -> ChatRequest:
        request = await run.with_images(replace(request, shortener=None))
        if self.edits:
            context = (await run.deployment.backend.info()).limits.max_model_len
            request, self.applied = await edited(request, self.edits, run.count, context)
            run.context.notes.cleared_tokens = sum(edit.tokens for edit in self.applied)
        return request

    @asynccontextmanager
    async def respond(
        self, run: EngineRun, request: ChatRequest
    ) -> AsyncIterator[tuple[ChatResponse, Events]]:
        """Yield the response and its events in batches, as `tool_loop.respond` does. The first
        event is a Summary if the conversation was compacted."""
        meter, rule, division = run.context.meter, self.rule, None
        request = await self.edited(run, request)
        if rule is not None:
            meter.begin_counting()
            context = (await run.deployment.backend.info()).limits.max_model_len
            limit = limit_of(rule, request, context)
            division = await _division(rule, run, request, limit)
        if rule is None or division is None:
            async with tool_loop.respond(run, request) as responding:
                yield responding
            return
        tokens = summary_tokens(request, limit, context)
        summary, response = await _compacted(rule, run, request, division, tokens)
        if rule.pauses:
            yield response, _alone(summary)
            return
        meter.begin_generation()
        used = response.summary_counts
        async with tool_loop.respond(run, _continued(request, summary)) as (response, events):
            response.summary_counts = used
            yield response, _preceded(summary, events)


async def _division(
    rule: Compaction, run: EngineRun, request: ChatRequest, limit: int | None
) -> Division | None:
    """Return the part that is replaced; None if the conversation stays as it is. `limit`: as
    `limit_of` returned it. Raise InvalidRequest if it must be compacted and has nothing to
    replace."""
    messages = request.messages
    if limit is None:
        division = divided_whole(messages)
        if division is None:
            raise InvalidRequest(
                "The conversation cannot be compacted, because 'messages' has nothing that a "
                "summary could replace. Send the conversation.",
                param="messages",
            )
        return division
    if limit <= 0:
        return None
    division = divided(messages, limit // PART_OF_LIMIT)
    if division is None:
        return None
    with suppress(ContextLengthExceeded):
        if await run.count(request) <= limit:
            return None
    # After a pause, the client decides what follows the summary.
    return divided_whole(messages) if rule.pauses else division


async def _compacted(
    rule: Compaction, run: EngineRun, request: ChatRequest, division: Division, tokens: int
) -> tuple[Summary, ChatResponse]:
    """Return the compacted conversation, and a response without events and tokens of its own.
    `request`: its edits are applied. `tokens`: the budget of the summary. Raise ToolgateError if
    the summary fails."""
    asked, caller = summary_request(request, rule, division.end, tokens), run.context.caller
    if not rule.pauses:
        asked = replace(asked, request_id=f"{request.request_id}-summary")
    context = (await run.deployment.backend.info()).limits.max_model_len
    asked, _ = await edited(asked, (ROOM,), run.count, context)
    writing, generation = await run.begin(asked)
    events: list[ResponseEvent] = []
    async with aclosing(generation.read(writing, run.context)) as batches:
        async for batch in batches:
            check_coverage(asked, writing.request)
            if caller.require_key is not None:
                caller.require_key()
            events += batch
    recent = tuple(
        request.messages[at]
        for at in division.recent
        if not (rule.keeps_users and request.messages[at]["role"] == "user")
    )
    summary = await run.context.guarded(summary_of(events, tokens), "user")
    replacement = Summary(summary, recent, rule.keeps_users, rule.pauses)
    response = run.response(generation)
    response.request, response.summary_counts = request, writing.counts
    return replacement, response


def _continued(request: ChatRequest, summary: Summary) -> ChatRequest:
    """Return the request with the compacted conversation."""
    stays = summary.remaining([message["role"] for message in request.messages])
    added = summary.messages()
    paths = request.message_paths
    last = paths[-1:] * len(added)
    return replace(
        request,
        messages=(*(request.messages[at] for at in stays), *added),
        message_paths=(*(paths[at] for at in stays), *last) if paths else paths,
    )


async def _alone(summary: Summary) -> Events:
    yield [ResponseEvent(0, summary), ResponseEvent(0, Finish(PAUSED))]


async def _preceded(summary: Summary, events: Events) -> Events:
    """Yield `summary` with the first event, until which the request can still move."""
    waiting = [ResponseEvent(0, summary)]
    async for batch in events:
        yield [*waiting, *batch] if batch else batch
        waiting = waiting if not batch else []
