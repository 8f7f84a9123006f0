"""A response in progress: converts the backend's events to response events of single choices."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from toolgate_core import wire
from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    InputDelta,
    ReasoningDelta,
)
from toolgate_core.errors import BackendFailed
from toolgate_core.grammar_key import CONTENT
from toolgate_core.segmenter import Segmenter

from ..backend_client.faults import SAME_RELEASE
from .calls import CallCheck, CallIds, HeldCalls
from .choice import ChoiceEvent, ResponseChoice, TokenTraces
from .preparation import PreparedRequest
from .resampling_state import Resample, ResamplingState

Delta = ContentDelta | ReasoningDelta | ArgumentsDelta | InputDelta
MAX_JOINED = 64
"""Maximum length of merged deltas, in characters. Tokens that accumulated while the process was
busy are sent in fewer chunks, and the arguments of a long call still arrive in parts."""


@dataclass(frozen=True)
class ResponseEvent:
    choice: int
    event: ChoiceEvent


@dataclass(frozen=True)
class ResponseHead:
    """Fields that a response and all its chunks have in common."""

    id: str
    created: int
    model: str
    system_fingerprint: str


@dataclass(frozen=True)
class TokenCounts:
    """Token counts of a response. `prompt` includes `cached`; `completion` includes `reasoning`."""

    prompt: int
    cached: int
    completion: int
    reasoning: int

    def __add__(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.completion + other.completion,
            self.reasoning + other.reasoning,
        )


class ChatResponse:
    """The response to one request. `feed` takes the backend's events, in order, in lists of any
    length.

    Raise EnforcementFailed if a choice contradicts the plan, and ToolSchemaViolation if a call is
    invalid and its choice cannot be sampled again.
    """

    def __init__(self, prepared: PreparedRequest, check: CallCheck, resamples: int = 0) -> None:
        """`resamples`: maximum number of times a choice is sampled again."""
        request, info, self._dialect = prepared.request, prepared.info, prepared.dialect
        response_id = request.answer_id or request.request_id
        self.head = ResponseHead(response_id, int(time.time()), request.model, fingerprint(info))
        self.request = request
        self._marks = info.marks
        self._call_ids = CallIds(info, request, prepared.dialect)
        self._ids: dict[int, tuple[CallStart, str]] = {}
        """By `id` of the event. The event is stored, so that its `id` is not reused."""
        self._begun = False
        self._counts_of_rounds: TokenCounts | None = None
        """Those of the rounds before."""
        self._calls_of_rounds = 0
        self.prompt_token_ids: tuple[int, ...] | None = None
        """Set if the request asks for them."""
        self.prompt_text: str | None = None
        self.prompt_logprobs: tuple[dict[int, wire.PromptLogprob] | None, ...] | None = None
        self.summary_counts: TokenCounts | None = None
        """Of the summary of the conversation, if it was compacted before the response."""
        self.context_length = info.limits.max_model_len
        self._max_resamples = resamples
        self.begin_round(prepared, check)

    def begin_round(self, prepared: PreparedRequest, check: CallCheck) -> None:
        """Take the events of one generation from here on. Those after the first one continue the
        response after calls that the gateway ran. Their requests have one choice."""
        if self._begun:
            self._counts_of_rounds = self.counts
            self._calls_of_rounds += self._choices[0].calls
        self._begun = True
        self.sent, self._plan, self._check = prepared.request, prepared.plan, check
        self._schemas = {tool.name: tool.parameters for tool in prepared.plan.candidates}
        self._choices: list[ResponseChoice] = []
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._usage: wire.UsageEvent | None = None

    async def feed(self, events: Iterable[wire.StreamEvent]) -> list[ResponseEvent]:
        """Return the events of the choices. Those of one choice are in order. Adjacent tokens of a
        choice are read together, and adjacent deltas of one type are merged."""
        fresh: dict[int, list[ChoiceEvent]] = {}
        for event in _joined(events):
            match event:
                case wire.TokensEvent():
                    self._cached_tokens = event.cached_tokens or self._cached_tokens
                    self.prompt_logprobs = event.prompt_logprobs or self.prompt_logprobs
                    new = await self._choice(event.choice).tokens(event)
                    fresh.setdefault(event.choice, []).extend(new)
                case wire.TraceEvent():
                    if self.request.extras.trace and not self._choice(event.choice).finished:
                        fresh.setdefault(event.choice, []).append(TokenTraces(event.tokens))
                case wire.EndEvent():
                    new = await self._choice(event.choice).end(event)
                    fresh.setdefault(event.choice, []).extend(new)
                case wire.StartEvent():
                    self._start(event)
                case wire.UsageEvent():
                    self._usage = event
        return [
            ResponseEvent(at, _numbered(event, self._calls_of_rounds))
            for at, new in fresh.items()
            for event in _merge(new)
        ]

    def call_id(self, start: CallStart) -> str:
        """Return the same id each time for the same event."""
        if id(start) not in self._ids:
            self._ids[id(start)] = (start, self._call_ids.id_of(start))
        return self._ids[id(start)][1]

    @property
    def complete(self) -> bool:
        """Whether the rest of the backend's stream is not needed: the gateway ended choices that
        the backend has not ended, or choices must be sampled again."""
        choices = self._choices
        ended_here = any(c.stopped or c.resample for c in choices)
        return ended_here and all(c.finished or c.resample for c in choices)

    def take_resample(self) -> Resample | None:
        """Return a choice that must be sampled again, or None. The next events that are fed must be
        those of that choice."""
        for choice in self._choices:
            if choice.resample is not None:
                resample, choice.resample = choice.resample, None
                return resample
        return None

    @property
    def counts(self) -> TokenCounts:
        """The backend's counts, of all rounds. If the gateway ended or resampled a choice, its
        tokens are counted here, up to the stop or the end of the invalid call."""
        choices, usage = self._choices, self._usage
        if usage and not any(choice.stopped or choice.resampled for choice in choices):
            completion = usage.completion_tokens
        else:
            completion = sum([choice.token_count for choice in choices])
        counts = TokenCounts(
            prompt=usage.prompt_tokens if usage else self._prompt_tokens,
            cached=usage.cached_tokens if usage else self._cached_tokens,
            completion=completion,
            reasoning=sum([choice.reasoning_tokens for choice in choices]),
        )
        return counts if self._counts_of_rounds is None else self._counts_of_rounds + counts

    @property
    def all_counts(self) -> TokenCounts:
        """Those of the response and of the summary before it."""
        return self.counts if self.summary_counts is None else self.summary_counts + self.counts

    def _start(self, event: wire.StartEvent) -> None:
        self._prompt_tokens = event.prompt_tokens
        if self._counts_of_rounds is None:
            self.prompt_token_ids = event.prompt_token_ids
            self.prompt_text = event.prompt_text
        self._choices = [
            ResponseChoice(
                Segmenter(
                    self._dialect,
                    self._marks,
                    schemas=self._schemas,
                    reasoning_open=event.reasoning_open,
                    required=self._plan.choice == "required",
                ),
                self.sent,
                self._plan,
                HeldCalls(self._check),
                self._resampling_state(at, event),
            )
            for at in range(self.sent.sampling.n)
        ]

    def _resampling_state(self, choice: int, event: wire.StartEvent) -> ResamplingState | None:
        if not self._check.residual:
            return None
        budget = event.max_tokens or self.sent.sampling.max_tokens
        return ResamplingState(
            choice,
            max_attempts=self._max_resamples,
            budget=budget,
            with_content=CONTENT in self._check.residual,
        )

    def _choice(self, index: int) -> ResponseChoice:
        if not 0 <= index < len(self._choices):
            raise BackendFailed(
                f"The backend sent tokens of choice {index}, but the request has "
                f"n={len(self._choices)}. {SAME_RELEASE}"
            )
        return self._choices[index]


def _numbered(event: ChoiceEvent, earlier: int) -> ChoiceEvent:
    """Return the event with the number of its call in the response, which has `earlier` calls of
    earlier rounds."""
    if earlier and isinstance(event, CallStart | ArgumentsDelta | InputDelta | CallEnd):
        return replace(event, index=event.index + earlier)
    return event


def fingerprint(info: wire.Info) -> str:
    """Return a digest of everything that can change the response to a seeded request (OpenAI API
    reference)."""
    return _hash(info.model, info.vllm_version, info.adapter, info.tokenizer, info.grammar_format)


@lru_cache(maxsize=256)
def _hash(*parts: str) -> str:
    return "fp_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


def _joined(events: Iterable[wire.StreamEvent]) -> Iterator[wire.StreamEvent]:
    """Yield the events, with adjacent tokens of one choice as one event."""
    for tokens, group in groupby(events, _kind_of_tokens):
        if tokens is None:
            yield from group
        else:
            yield wire.joined([*group])  # type: ignore[list-item]


def _kind_of_tokens(event: wire.StreamEvent) -> tuple[int, bool] | None:
    """Return what the events must have in common whose tokens are joined; None for other events."""
    return (event.choice, event.logprobs is None) if isinstance(event, wire.TokensEvent) else None


def _merge(events: list[ChoiceEvent]) -> list[ChoiceEvent]:
    merged: list[ChoiceEvent] = []
    for event in events:
        last = merged[-1] if merged else None
        if isinstance(event, Delta) and isinstance(last, Delta) and _continues(event, last):
            text, logprobs = last.text + event.text, last.logprobs + event.logprobs
            merged[-1] = replace(last, text=text, logprobs=logprobs)
        elif event != ContentDelta("", ()):  # the rest of a delta that begins with a stop string
            merged.append(event)
    return merged


def _continues(event: Delta, last: Delta) -> bool:
    same = type(event) is type(last) and getattr(event, "index", 0) == getattr(last, "index", 0)
    return same and len(last.text) + len(event.text) <= MAX_JOINED
