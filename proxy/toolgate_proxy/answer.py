"""An answer as it arrives: wire events of all choices → pieces, each of one choice."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

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

MAX_JOINED = 64
"""Characters up to which neighbouring deltas become one. Tokens that piled up while the process was
busy go out in fewer chunks, and the arguments of a long call still arrive in parts."""


@dataclass(frozen=True)
class TokenIds:
    """The ids behind the events before it."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class Piece:
    choice: int
    event: Event | TokenIds


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

    Raises EnforcementFailed where a choice is not what the plan promised.
    """

    def __init__(
        self, request: ChatRequest, plan: EnforcementPlan, dialect: Dialect, info: wire.Info
    ) -> None:
        self.head = Head(request.request_id, int(time.time()), request.model, _fingerprint(info))
        self.request = request
        self._plan = plan
        self._dialect = dialect
        self._marks = info.marks
        self._choices: list[_Choice] = []
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._usage: wire.UsageEvent | None = None
        self.prompt_token_ids: tuple[int, ...] | None = None
        """Where the request asked for them."""

    def feed(self, events: Iterable[wire.StreamEvent]) -> list[Piece]:
        """Of one choice, the pieces come in order; neighbours of one kind come joined."""
        fresh: dict[int, list[Event | TokenIds]] = {}
        for event in events:
            match event:
                case wire.TokensEvent():
                    self._cached_tokens = event.cached_tokens or self._cached_tokens
                    shown = self._choice(event.choice).tokens(event)
                    fresh.setdefault(event.choice, []).extend(shown)
                case wire.EndEvent():
                    shown = self._choice(event.choice).end(event)
                    fresh.setdefault(event.choice, []).extend(shown)
                case wire.StartEvent():
                    self._start(event)
                case wire.UsageEvent():
                    self._usage = event
        return [Piece(at, event) for at, shown in fresh.items() for event in _joined(shown)]

    @property
    def complete(self) -> bool:
        """Nothing more is to come, though the backend would go on: stop strings ended choices that
        it has not ended."""
        choices = self._choices
        return any(c.stopped for c in choices) and all(c.finished for c in choices)

    @property
    def counts(self) -> TokenCounts:
        """Counted by the backend, or from the tokens up to where stop strings ended choices."""
        completion = sum(choice.token_count for choice in self._choices)
        usage = self._usage
        if usage and not any(choice.stopped for choice in self._choices):
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
        self._choices = [
            _Choice(
                Segmenter(
                    self._dialect,
                    self._marks,
                    reasoning_open=event.reasoning_open,
                    required=self._plan.choice == "required",
                ),
                self.request,
                self._plan,
            )
            for _ in range(self.request.sampling.n)
        ]

    def _choice(self, index: int) -> _Choice:
        if not 0 <= index < len(self._choices):
            raise BackendFailed("The backend sent tokens of a choice that was not asked for.")
        return self._choices[index]


class _Choice:
    def __init__(self, segmenter: Segmenter, request: ChatRequest, plan: EnforcementPlan) -> None:
        self._segmenter = segmenter
        self._request = request
        self._plan = plan
        self._names = frozenset(tool.name for tool in plan.candidates)
        # What stops the words before a call that is owed would leave the call out.
        stopping = plan.choice != "required"
        self._stop_ids = frozenset(request.sampling.stop_token_ids) if stopping else frozenset()
        stops = request.stop if stopping else ()
        self._stops = StopStrings(stops, include=request.include_stop) if stops else None
        self._stop_id: int | None = None
        self._unsaid = request.echo
        self.finished = False
        self.token_count = 0

    @property
    def stopped(self) -> bool:
        """Ended on this side, by a stop string or a stop token."""
        hit = self._stops is not None and self._stops.hit is not None
        return hit or self._stop_id is not None

    @property
    def reasoning_tokens(self) -> int:
        return self._segmenter.reasoning_tokens

    def tokens(self, event: wire.TokensEvent) -> list[Event | TokenIds]:
        if self.finished:
            return []
        before = self.token_count
        if self._stops is None and not self._stop_ids:
            self.token_count += len(event.ids)
            shown = self._segmenter.feed(event.ids, event.texts, event.logprobs)
        else:
            shown = self._tokens_until_stop(event)
        said: list[Event | TokenIds] = [*self._echo(), *self._checked(shown)]
        if self._request.return_token_ids:
            # Before the end, which is the last thing that is said of a choice.
            at = len(said) - self.finished
            said.insert(at, TokenIds(event.ids[: self.token_count - before]))
        return said

    def end(self, event: wire.EndEvent) -> list[Event | TokenIds]:
        if self.finished:
            return []
        shown = self._segmenter.finish(event.finish_reason, event.stop_reason, event.text)
        if event.stop_reason in self._stop_ids and isinstance(last := shown[-1], Finish):
            shown[-1] = replace(last, stop_reason=event.stop_reason)
        filtered = self._stops.filter(shown) if self._stops else shown
        return [*self._echo(), *self._checked(filtered)]

    def _echo(self) -> list[Event]:
        unsaid, self._unsaid = self._unsaid, ""
        return [ContentDelta(unsaid)] if unsaid else []

    def _tokens_until_stop(self, event: wire.TokensEvent) -> list[Event]:
        """One token at a time, so that those after the stop are not counted."""
        shown: list[Event] = []
        for at, token in enumerate(event.ids):
            if self.stopped:
                break
            self.token_count += 1
            fresh = self._ended_by(token, event.texts[at])
            if fresh is None:
                one = slice(at, at + 1)
                logprobs = event.logprobs[one] if event.logprobs is not None else None
                fresh = self._segmenter.feed(event.ids[one], event.texts[one], logprobs)
            shown += self._stops.filter(fresh) if self._stops else fresh
        return shown

    def _ended_by(self, token: int, text: str) -> list[Event] | None:
        """The end of the content, where this is one of its stop tokens."""
        if token not in self._stop_ids or not self._segmenter.in_content:
            return None
        self._stop_id = token
        said = self._segmenter.feed([token], [text]) if self._request.include_stop else []
        *before, _ = self._segmenter.finish("stop")
        return [*said, *before, Finish("stop", token)]

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
                    events[at] = replace(event, reason="stop")
        if not self._request.include_reasoning:
            return [event for event in events if not isinstance(event, ReasoningDelta)]
        return events


def _fingerprint(info: wire.Info) -> str:
    """Changes with whatever may change the answers of a seeded request (OpenAI API reference)."""
    made_by = (info.model, info.vllm_version, info.adapter, info.tokenizer, info.grammar_format)
    return "fp_" + hashlib.sha256("\0".join(made_by).encode()).hexdigest()[:10]


def _joined(events: list[Event | TokenIds]) -> list[Event | TokenIds]:
    joined: list[Event | TokenIds] = []
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
