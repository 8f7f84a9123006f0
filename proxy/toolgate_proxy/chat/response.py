"""An answer as it arrives: wire events of all choices → pieces, each of one choice."""

from __future__ import annotations

import hashlib
import secrets
import string
import time
from collections.abc import Iterable
from dataclasses import dataclass

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.deltas import ArgumentsDelta, CallStart, ContentDelta, ReasoningDelta
from toolgate_core.dialect import Dialect
from toolgate_core.errors import BackendFailed
from toolgate_core.plan import EnforcementPlan
from toolgate_core.segmenter import Segmenter

from .choice import Choice, ChoiceEvent
from .held_calls import CallCheck, HeldCalls
from .retries import Resample, Retries

ALPHABET = string.ascii_letters + string.digits
MAX_JOINED = 64
"""Characters up to which neighbouring deltas become one. Tokens that piled up while the process was
busy go out in fewer chunks, and the arguments of a long call still arrive in parts."""


@dataclass(frozen=True)
class ResponseEvent:
    choice: int
    event: ChoiceEvent


@dataclass(frozen=True)
class ResponseHead:
    """What an answer, and every chunk of it, says of itself."""

    id: str
    created: int
    model: str
    system_fingerprint: str


@dataclass(frozen=True)
class TokenCounts:
    """Tokens of the request: those of the prompt, of them cached; generated, of them reasoning."""

    prompt: int
    cached: int
    completion: int
    reasoning: int


class CallIds:
    """Of one answer."""

    def __init__(self, info: wire.Info, request: ChatRequest) -> None:
        self._numbered = info.call_ids == "kimi_k2"
        # As vLLM does (renderers/chat_utils.py): numbers go on through a conversation.
        self._before = sum(len(message.get("tool_calls") or ()) for message in request.messages)

    def id_of(self, start: CallStart) -> str:
        if self._numbered:
            return f"functions.{start.name}:{self._before + start.index}"
        return "call_" + "".join(secrets.choice(ALPHABET) for _ in range(24))


class ChatResponse:
    """The answer to one request. `feed` it the wire's events, in order and in lists of any length.

    Raises EnforcementFailed where a choice is not what the plan promised, ToolSchemaViolation where
    a call breaks its schema and the choice may not be sampled again.
    """

    def __init__(
        self,
        request: ChatRequest,
        plan: EnforcementPlan,
        dialect: Dialect,
        info: wire.Info,
        check: CallCheck,
        resamples: int = 0,
    ) -> None:
        """`resamples`: how often a choice may be sampled again at most."""
        answer_id = request.answer_id or request.request_id
        self.head = ResponseHead(answer_id, int(time.time()), request.model, _fingerprint(info))
        self.request = request
        self._plan = plan
        self._dialect = dialect
        self._marks = info.marks
        self._call_ids = CallIds(info, request)
        self._ids: dict[int, tuple[CallStart, str]] = {}
        """By identity of the event, which is kept so that no other can have it."""
        self._choices: list[Choice] = []
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._usage: wire.UsageEvent | None = None
        self.prompt_token_ids: tuple[int, ...] | None = None
        """Where the request asked for them."""
        self.prompt_text: str | None = None
        self.prompt_logprobs: tuple[dict[int, wire.PromptLogprob] | None, ...] | None = None
        self._check = check
        self._most_resamples = resamples

    async def feed(self, events: Iterable[wire.StreamEvent]) -> list[ResponseEvent]:
        """Of one choice, the pieces come in order; neighbours of one kind come joined."""
        fresh: dict[int, list[ChoiceEvent]] = {}
        for event in events:
            match event:
                case wire.TokensEvent():
                    self._cached_tokens = event.cached_tokens or self._cached_tokens
                    self.prompt_logprobs = event.prompt_logprobs or self.prompt_logprobs
                    shown = await self._choice(event.choice).tokens(event)
                    fresh.setdefault(event.choice, []).extend(shown)
                case wire.EndEvent():
                    shown = await self._choice(event.choice).end(event)
                    fresh.setdefault(event.choice, []).extend(shown)
                case wire.StartEvent():
                    self._start(event)
                case wire.UsageEvent():
                    self._usage = event
        return [ResponseEvent(at, event) for at, shown in fresh.items() for event in _joined(shown)]

    def call_id(self, start: CallStart) -> str:
        """The same for the same event, however many shapes are made of it."""
        if id(start) not in self._ids:
            self._ids[id(start)] = (start, self._call_ids.id_of(start))
        return self._ids[id(start)][1]

    @property
    def complete(self) -> bool:
        """Nothing more is to come of this stream, though the backend would go on: stop strings
        ended choices that it has not ended, or choices are to be sampled again."""
        choices = self._choices
        left = any(c.stopped or c.again for c in choices)
        return left and all(c.finished or c.again for c in choices)

    def resample(self) -> Resample | None:
        """A choice to be sampled again, the next events fed being those of that. None: all done."""
        for choice in self._choices:
            if choice.again is not None:
                again, choice.again = choice.again, None
                return again
        return None

    @property
    def counts(self) -> TokenCounts:
        """Counted by the backend, or from the tokens up to where stop strings ended choices or
        calls were found wrong: those of the wrong calls are counted, those after them are not."""
        completion = sum(choice.token_count for choice in self._choices)
        usage = self._usage
        if usage and not any(choice.stopped or choice.resampled for choice in self._choices):
            completion = usage.completion_tokens
        return TokenCounts(
            prompt=usage.prompt_tokens if usage else self._prompt_tokens,
            cached=usage.cached_tokens if usage else self._cached_tokens,
            completion=completion,
            reasoning=sum(choice.reasoning_tokens for choice in self._choices),
        )

    def _start(self, event: wire.StartEvent) -> None:
        self._prompt_tokens = event.prompt_tokens
        self.prompt_token_ids = event.prompt_token_ids
        self.prompt_text = event.prompt_text
        self._choices = [
            Choice(
                Segmenter(
                    self._dialect,
                    self._marks,
                    reasoning_open=event.reasoning_open,
                    required=self._plan.choice == "required",
                ),
                self.request,
                self._plan,
                HeldCalls(self._check),
                self._retries(at, event),
            )
            for at in range(self.request.sampling.n)
        ]

    def _retries(self, choice: int, event: wire.StartEvent) -> Retries | None:
        if not self._check.residual:
            return None
        budget = event.max_tokens or self.request.sampling.max_tokens
        return Retries(choice, self._marks, most=self._most_resamples, budget=budget)

    def _choice(self, index: int) -> Choice:
        if not 0 <= index < len(self._choices):
            raise BackendFailed("The backend sent tokens of a choice that was not asked for.")
        return self._choices[index]


def _fingerprint(info: wire.Info) -> str:
    """Changes with whatever may change the answers of a seeded request (OpenAI API reference)."""
    made_by = (info.model, info.vllm_version, info.adapter, info.tokenizer, info.grammar_format)
    return "fp_" + hashlib.sha256("\0".join(made_by).encode()).hexdigest()[:10]


def _joined(events: list[ChoiceEvent]) -> list[ChoiceEvent]:
    joined: list[ChoiceEvent] = []
    for event in events:
        last = joined[-1] if joined else None
        match last, event:
            case (ContentDelta(a, a_logprobs), ContentDelta(b, b_logprobs)) if _fits(a, b):
                joined[-1] = ContentDelta(a + b, a_logprobs + b_logprobs)
            case (ReasoningDelta(a, a_logprobs), ReasoningDelta(b, b_logprobs)) if _fits(a, b):
                joined[-1] = ReasoningDelta(a + b, a_logprobs + b_logprobs)
            case (
                ArgumentsDelta(index, a, a_logprobs),
                ArgumentsDelta(same, b, b_logprobs),
            ) if index == same and _fits(a, b):
                joined[-1] = ArgumentsDelta(index, a + b, a_logprobs + b_logprobs)
            case _, ContentDelta("", ()):
                pass  # what a stop string leaves when it begins a delta
            case _:
                joined.append(event)
    return joined


def _fits(a: str, b: str) -> bool:
    return len(a) + len(b) <= MAX_JOINED
