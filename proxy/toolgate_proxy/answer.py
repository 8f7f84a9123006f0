"""An answer as it arrives: wire events of all choices → pieces, each of one choice."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolgate_core import wire
from toolgate_core.dialect import Dialect
from toolgate_core.errors import BackendFailed, EnforcementFailed
from toolgate_core.plan import ChatRequest, EnforcementPlan
from toolgate_core.segmenter import (
    ArgumentsDelta,
    CallStart,
    ContentDelta,
    Event,
    Finish,
    ReasoningDelta,
    Segmenter,
)
from toolgate_core.stop import StopStrings

from .calls import Calls
from .last_look import LastLook
from .resampling import Resample, Retries

MAX_JOINED = 64
"""Characters up to which neighbouring deltas become one. Tokens that piled up while the process was
busy go out in fewer chunks, and the arguments of a long call still arrive in parts."""


@dataclass(frozen=True)
class Piece:
    choice: int
    event: Event


@dataclass(frozen=True)
class Head:
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


class Answer:
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
        look: LastLook,
        resamples: int = 0,
    ) -> None:
        """`resamples`: how often a choice may be sampled again at most."""
        self.head = Head(request.request_id, int(time.time()), request.model, _fingerprint(info))
        self._request = request
        self._plan = plan
        self._dialect = dialect
        self._marks = info.marks
        self._choices: list[_Choice] = []
        self._prompt_tokens = 0
        self._usage: wire.UsageEvent | None = None
        self._look = look
        self._most_resamples = resamples

    async def feed(self, events: Iterable[wire.StreamEvent]) -> list[Piece]:
        """Of one choice, the pieces come in order; neighbours of one kind come joined."""
        fresh: dict[int, list[Event]] = {}
        for event in events:
            match event:
                case wire.TokensEvent():
                    shown = await self._choice(event.choice).tokens(event)
                    fresh.setdefault(event.choice, []).extend(shown)
                case wire.EndEvent():
                    shown = await self._choice(event.choice).end(event)
                    fresh.setdefault(event.choice, []).extend(shown)
                case wire.StartEvent():
                    self._start(event)
                case wire.UsageEvent():
                    self._usage = event
        return [Piece(at, event) for at, shown in fresh.items() for event in _joined(shown)]

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
            cached=usage.cached_tokens if usage else 0,
            completion=completion,
            reasoning=sum(choice.reasoning_tokens for choice in self._choices),
        )

    def _start(self, event: wire.StartEvent) -> None:
        self._prompt_tokens = event.prompt_tokens
        required = self._plan.choice == "required"
        # A stop string in what a model says before a call that it owes must not end the choice.
        stops = () if required else self._request.stop
        self._choices = [
            _Choice(
                Segmenter(
                    self._dialect,
                    self._marks,
                    reasoning_open=event.reasoning_open,
                    required=required,
                ),
                self._plan,
                stops,
                Calls(self._look),
                Retries(
                    at,
                    self._marks,
                    most=self._most_resamples,
                    budget=event.max_tokens or self._request.sampling.max_tokens,
                ),
            )
            for at in range(self._request.sampling.n)
        ]

    def _choice(self, index: int) -> _Choice:
        if not 0 <= index < len(self._choices):
            raise BackendFailed("The backend sent tokens of a choice that was not asked for.")
        return self._choices[index]


class _Choice:
    def __init__(
        self,
        segmenter: Segmenter,
        plan: EnforcementPlan,
        stops: Sequence[str],
        calls: Calls,
        retries: Retries,
    ) -> None:
        self._segmenter = segmenter
        self._plan = plan
        self._names = frozenset(tool.name for tool in plan.candidates)
        self._stops = StopStrings(stops) if stops else None
        self._calls = calls
        self._retries = retries
        self.finished = False
        self.token_count = 0
        self.again: Resample | None = None
        """Set while the choice waits to be sampled again; tokens that still come are none of it."""

    @property
    def stopped(self) -> bool:
        """A stop string ended it."""
        return self._stops is not None and self._stops.hit is not None

    @property
    def resampled(self) -> bool:
        return self._retries.attempts > 0

    @property
    def reasoning_tokens(self) -> int:
        return self._segmenter.reasoning_tokens

    async def tokens(self, event: wire.TokensEvent) -> list[Event]:
        if self.finished or self.again is not None:
            return []
        if self._stops is None and not self._calls.doubtful:
            self.token_count += len(event.ids)
            return await self._passed(self._segmenter.feed(event.ids, event.texts, event.logprobs))
        return await self._one_by_one(event)

    async def end(self, event: wire.EndEvent) -> list[Event]:
        if self.finished or self.again is not None:
            return []
        shown = self._segmenter.finish(event.finish_reason, event.stop_reason, event.text)
        return await self._passed(self._stops.filter(shown) if self._stops else shown)

    async def _one_by_one(self, event: wire.TokensEvent) -> list[Event]:
        """So that the tokens after a stop string or a wrong call are not counted."""
        shown: list[Event] = []
        for at, token in enumerate(event.ids):
            if self.stopped or self.again is not None:
                break
            if self._calls.doubtful and self._retries.note(token, self._segmenter, self._stops):
                self._calls.hold()
            self.token_count += 1
            one = slice(at, at + 1)
            logprobs = event.logprobs[one] if event.logprobs is not None else None
            fresh = self._segmenter.feed(event.ids[one], event.texts[one], logprobs)
            shown += await self._passed(self._stops.filter(fresh) if self._stops else fresh)
        return shown

    async def _passed(self, events: list[Event]) -> list[Event]:
        shown, wrong = await self._calls.passed(self._checked(events))
        if wrong is not None:
            self.again = self._retries.again(wrong, self.token_count)
            self._segmenter, self._stops = self._retries.before_call()
            self.finished = False
        return shown

    def _checked(self, events: list[Event]) -> list[Event]:
        """The masks have seen to the plan; a backend that did not apply them is found out here."""
        for at, event in enumerate(events):
            if isinstance(event, CallStart):
                too_many = self._plan.max_calls is not None and event.index >= self._plan.max_calls
                if event.name not in self._names or too_many:
                    raise EnforcementFailed(
                        "The model made a call that this request does not allow; send it again."
                    )
            elif isinstance(event, Finish):
                self.finished = True
                if self._plan.named and event.reason == "tool_calls":
                    # OpenAI: "stop" after the call of a named function, "tool_calls" otherwise.
                    events[at] = Finish("stop")
        return events


def _fingerprint(info: wire.Info) -> str:
    """Changes with whatever may change the answers of a seeded request (OpenAI API reference)."""
    made_by = (info.model, info.vllm_version, info.adapter, info.tokenizer, info.grammar_format)
    return "fp_" + hashlib.sha256("\0".join(made_by).encode()).hexdigest()[:10]


def _joined(events: list[Event]) -> list[Event]:
    joined: list[Event] = []
    for event in events:
        last = joined[-1] if joined else None
        match last, event:
            case (ContentDelta(a, a_logprobs), ContentDelta(b, b_logprobs)) if _fits(a, b):
                joined[-1] = ContentDelta(a + b, a_logprobs + b_logprobs)
            case (ReasoningDelta(a), ReasoningDelta(b)) if _fits(a, b):
                joined[-1] = ReasoningDelta(a + b)
            case (ArgumentsDelta(index, a), ArgumentsDelta(same, b)) if index == same and _fits(
                a, b
            ):
                joined[-1] = ArgumentsDelta(index, a + b)
            case _, ContentDelta("", ()):
                pass  # what a stop string leaves when it begins a delta
            case _:
                joined.append(event)
    return joined


def _fits(a: str, b: str) -> bool:
    return len(a) + len(b) <= MAX_JOINED
