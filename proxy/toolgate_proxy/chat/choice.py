"""One choice of a response: converts its tokens to events and detects where the choice ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolgate_core import wire
from toolgate_core.custom_tools import CustomCalls
from toolgate_core.deltas import CallStart, ContentDelta, Event, Finish, ReasoningDelta
from toolgate_core.errors import EnforcementFailed
from toolgate_core.segmenter import Segmenter, StopStrings

from ..request.chat_request import ChatRequest
from ..request.plan import EnforcementPlan
from . import metrics
from .calls import HeldCalls
from .resampling_state import Resample, ResamplingState, SampledToken


@dataclass(frozen=True)
class TokenIdsEvent:
    """The token ids of the preceding events."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class ChoiceStart:
    """The first tokens have no visible text: a marker or the name of a tool."""


@dataclass(frozen=True)
class TokenTraces:
    """How tokens were constrained, as they arrived from the backend. Tokens of a call that is
    sampled again are followed by others with the same positions."""

    tokens: tuple[wire.TokenTrace, ...]


@dataclass(frozen=True)
class GatewayCallRan:
    """The gateway ran a call, and the turn goes on. `shown`: what the client sees of the result."""

    start: CallStart
    shown: object


class FeatureEvent:
    """An event that only a feature knows, which shows it to the client."""


ChoiceEvent = Event | TokenIdsEvent | ChoiceStart | TokenTraces | GatewayCallRan | FeatureEvent


class ResponseChoice:
    def __init__(
        self,
        segmenter: Segmenter,
        request: ChatRequest,
        plan: EnforcementPlan,
        calls: HeldCalls,
        resampling: ResamplingState | None,
    ) -> None:
        """`resampling` is None if masks enforce all schemas, so that no call can be invalid."""
        self._segmenter = segmenter
        self._request = request
        self._plan = plan
        self._calls = calls
        self._resampling = resampling
        self._names = frozenset(tool.name for tool in plan.candidates)
        self._custom = CustomCalls(tool.name for tool in plan.candidates if tool.custom)
        # A stop string in the text before a required call would prevent the call.
        stopping = plan.choice != "required"
        self._stop_ids = frozenset(request.sampling.stop_token_ids) if stopping else frozenset()
        stops = request.stop if stopping else ()
        self._stops = StopStrings(stops, include=request.include_stop) if stops else None
        self._stop_id: int | None = None
        self._echo = request.echo
        """Text that precedes the generated content; empty once it was sent."""
        self._ids_sent = 0
        self._started = False
        self._called: set[int] = set()
        """The indices of the calls."""
        self.finished = False
        self.token_count = 0
        self.resample: Resample | None = None
        """Set while the choice waits to be sampled again. Further tokens are then ignored."""

    @property
    def stopped(self) -> bool:
        """The gateway ended the choice, at a stop string or stop token."""
        hit = self._stops is not None and self._stops.hit is not None
        return hit or self._stop_id is not None

    @property
    def resampled(self) -> bool:
        return self._resampling is not None and self._resampling.attempts > 0

    @property
    def calls(self) -> int:
        """The number of calls that have begun."""
        return len(self._called)

    @property
    def reasoning_tokens(self) -> int:
        return self._segmenter.reasoning_tokens

    async def tokens(self, event: wire.TokensEvent) -> list[ChoiceEvent]:
        """Raise EnforcementFailed if the tokens contradict the plan, and ToolSchemaViolation if a
        call is invalid and the choice cannot be sampled again."""
        if self.finished or self.resample is not None:
            return []
        before = self.token_count
        if self._stops is None and not self._stop_ids and not self._calls.may_be_invalid:
            self.token_count += len(event.ids)
            fresh = self._segmenter.feed(event.ids, event.texts, event.logprobs)
            events = await self._release(fresh)
        else:
            events = await self._feed_one_by_one(event)
        extended = self._add_extras(events, event.ids[: self.token_count - before])
        return self._add_start(extended)

    async def end(self, event: wire.EndEvent) -> list[ChoiceEvent]:
        if self.finished or self.resample is not None:
            return []
        events = self._segmenter.finish(event.finish_reason, event.stop_reason, event.text)
        if event.stop_reason in self._stop_ids and isinstance(last := events[-1], Finish):
            events[-1] = replace(last, stop_reason=event.stop_reason)
        if self._stops is not None:
            events = self._stops.filter(events)
        return self._add_extras(await self._release(events))

    def _add_extras(self, events: list[Event], ids: tuple[int, ...] = ()) -> list[ChoiceEvent]:
        """Add what the client requested in addition: the echo and the token ids."""
        echo, self._echo = self._echo, ""
        extended: list[ChoiceEvent] = [*([ContentDelta(echo)] if echo else ()), *events]
        if self._request.extras.return_token_ids and (fresh := self._fresh_ids(ids)):
            # The finish event must remain the last event of a choice.
            extended.insert(len(extended) - self.finished, TokenIdsEvent(fresh))
        return extended

    def _add_start(self, events: list[ChoiceEvent]) -> list[ChoiceEvent]:
        started, self._started = self._started, True
        return events or ([] if started else [ChoiceStart()])

    def _fresh_ids(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """Return the ids that may be sent now. Those of a held call follow when the call is
        released."""
        if self._resampling is None:
            return ids
        if self._calls.is_holding:
            return ()
        accepted = self._resampling.accepted
        fresh, self._ids_sent = accepted[self._ids_sent :], len(accepted)
        return fresh

    async def _feed_one_by_one(self, event: wire.TokensEvent) -> list[Event]:
        """Feed single tokens, so that tokens after a stop or an invalid call are not counted."""
        events: list[Event] = []
        for at, token in enumerate(event.ids):
            if self.stopped or self.resample is not None:
                break
            one = slice(at, at + 1)
            logprobs = event.logprobs[one] if event.logprobs is not None else None
            sampled = SampledToken(token, event.texts[at], logprobs)
            if self._resampling is not None:
                begun = self._segmenter.in_call or self._calls.holds_content
                self._resampling.note(sampled, self._segmenter, self._stops, in_call=begun)
            calls = self._segmenter.in_call
            self.token_count += 1
            fresh = self._end_at_stop_token(token, event.texts[at])
            if fresh is None:
                fresh = sampled.feed(self._segmenter)
            if self._resampling is not None and self._segmenter.in_call and not calls:
                self._calls.hold()
            events += await self._release(self._stops.filter(fresh) if self._stops else fresh)
            if self._resampling is not None and self.resample is None:
                self._resampling.note_written(self._calls.written)
        return events

    def _end_at_stop_token(self, token: int, text: str) -> list[Event] | None:
        """Return the last events of the choice if `token` is a stop token in content, otherwise
        None."""
        if token not in self._stop_ids or not self._segmenter.in_content:
            return None
        self._stop_id = token
        included = self._segmenter.feed([token], [text]) if self._request.include_stop else []
        *before, _ = self._segmenter.finish("stop")
        return [*included, *before, Finish("stop", token)]

    async def _release(self, events: list[Event]) -> list[Event]:
        """Return the events that may be sent. Reset the choice to before an invalid call, or to
        before a value in it."""
        released, invalid = await self._calls.release(self._check_plan(events))
        if invalid is not None and self._resampling is not None:
            self.resample = self._resampling.after(invalid, self.token_count)
            self._segmenter, self._stops, begun = self._resampling.restored()
            if self.resample.in_call:
                self._calls.resume(begun)
            self.finished = False
        return self._custom.converted(released)

    def _check_plan(self, events: list[Event]) -> list[Event]:
        """Verify the plan, which masks enforce. Detect a backend that did not apply them."""
        for at, event in enumerate(events):
            if isinstance(event, CallStart):
                self._called.add(event.index)
                max_calls = self._plan.max_calls
                too_many = max_calls is not None and event.index >= max_calls
                if event.name not in self._names or too_many:
                    what = f"call number {event.index + 1}" if too_many else "a call"
                    raise EnforcementFailed(
                        f"The model made {what} of {event.name!r}, which the request does not "
                        "allow: the masks were not applied. Send the request again, and check the "
                        "log of the backend."
                    )
            elif isinstance(event, Finish):
                self.finished = True
                if event.repeats:
                    metrics.REPETITIONS.inc()
                if self._plan.named and event.reason == "tool_calls":
                    # OpenAI: "stop" after the call of a named function, "tool_calls" otherwise.
                    events[at] = replace(event, reason="stop")
        if not self._request.include_reasoning and not self._request.gateway_tools:
            return [event for event in events if not isinstance(event, ReasoningDelta)]
        return events
