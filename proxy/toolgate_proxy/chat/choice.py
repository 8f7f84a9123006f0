"""One choice of an answer: its tokens → events, up to where it ends on this side."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.deltas import CallStart, ContentDelta, Event, Finish, ReasoningDelta
from toolgate_core.errors import EnforcementFailed
from toolgate_core.plan import EnforcementPlan
from toolgate_core.segmenter import Segmenter
from toolgate_core.stop import StopStrings

from .held_calls import HeldCalls
from .retries import Resample, Retries


@dataclass(frozen=True)
class TokenIds:
    """The ids behind the events before it."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class ChoiceStarted:
    """The model has begun, with tokens that show nothing yet: a mark, a tool's name."""


ChoiceEvent = Event | TokenIds | ChoiceStarted


class Choice:
    def __init__(
        self,
        segmenter: Segmenter,
        request: ChatRequest,
        plan: EnforcementPlan,
        calls: HeldCalls,
        retries: Retries | None,
    ) -> None:
        """`retries`: None where no call may turn out invalid."""
        self._segmenter = segmenter
        self._request = request
        self._plan = plan
        self._calls = calls
        self._retries = retries
        self._names = frozenset(tool.name for tool in plan.candidates)
        # What stops the words before a call that is owed would leave the call out.
        stopping = plan.choice != "required"
        self._stop_ids = frozenset(request.sampling.stop_token_ids) if stopping else frozenset()
        stops = request.stop if stopping else ()
        self._stops = StopStrings(stops, include=request.include_stop) if stops else None
        self._stop_id: int | None = None
        self._unsaid = request.echo
        self._ids_said = 0
        self._begun = False
        self.finished = False
        self.token_count = 0
        self.again: Resample | None = None
        """Set while the choice waits to be sampled again; tokens that still come are none of it."""

    @property
    def stopped(self) -> bool:
        """Ended on this side, by a stop string or a stop token."""
        hit = self._stops is not None and self._stops.hit is not None
        return hit or self._stop_id is not None

    @property
    def resampled(self) -> bool:
        return self._retries is not None and self._retries.attempts > 0

    @property
    def reasoning_tokens(self) -> int:
        return self._segmenter.reasoning_tokens

    async def tokens(self, event: wire.TokensEvent) -> list[ChoiceEvent]:
        """Raises EnforcementFailed where they are not what the plan promised, ToolSchemaViolation
        where a call breaks its schema and the choice may not be sampled again."""
        if self.finished or self.again is not None:
            return []
        before = self.token_count
        if self._stops is None and not self._stop_ids and not self._calls.doubtful:
            self.token_count += len(event.ids)
            fresh = self._segmenter.feed(event.ids, event.texts, event.logprobs)
            shown = await self._passed(fresh)
        else:
            shown = await self._one_by_one(event)
        return self._beginning(self._said(shown, event.ids[: self.token_count - before]))

    async def end(self, event: wire.EndEvent) -> list[ChoiceEvent]:
        if self.finished or self.again is not None:
            return []
        shown = self._segmenter.finish(event.finish_reason, event.stop_reason, event.text)
        if event.stop_reason in self._stop_ids and isinstance(last := shown[-1], Finish):
            shown[-1] = replace(last, stop_reason=event.stop_reason)
        return self._said(await self._passed(self._stops.filter(shown) if self._stops else shown))

    def _said(self, shown: list[Event], taken: tuple[int, ...] = ()) -> list[ChoiceEvent]:
        """With what the client asked to have said as well: the message it began, the ids."""
        unsaid, self._unsaid = self._unsaid, ""
        said: list[ChoiceEvent] = [*([ContentDelta(unsaid)] if unsaid else ()), *shown]
        if self._request.return_token_ids and (ids := self._fresh_ids(taken)):
            # Before the end, which is the last thing that is said of a choice.
            said.insert(len(said) - self.finished, TokenIds(ids))
        return said

    def _beginning(self, said: list[ChoiceEvent]) -> list[ChoiceEvent]:
        begun, self._begun = self._begun, True
        return said or ([] if begun else [ChoiceStarted()])

    def _fresh_ids(self, taken: tuple[int, ...]) -> tuple[int, ...]:
        """But for those of a call that is held back: they come when it goes, or never."""
        if self._retries is None:
            return taken
        if self._calls.holding:
            return ()
        accepted = self._retries.accepted
        fresh, self._ids_said = accepted[self._ids_said :], len(accepted)
        return fresh

    async def _one_by_one(self, event: wire.TokensEvent) -> list[Event]:
        """So that the tokens after a stop or a wrong call are not counted."""
        shown: list[Event] = []
        for at, token in enumerate(event.ids):
            if self.stopped or self.again is not None:
                break
            retries = self._retries
            if retries is not None and retries.note(token, self._segmenter, self._stops):
                self._calls.hold()
            self.token_count += 1
            fresh = self._ended_by(token, event.texts[at])
            if fresh is None:
                one = slice(at, at + 1)
                logprobs = event.logprobs[one] if event.logprobs is not None else None
                fresh = self._segmenter.feed(event.ids[one], event.texts[one], logprobs)
            shown += await self._passed(self._stops.filter(fresh) if self._stops else fresh)
        return shown

    def _ended_by(self, token: int, text: str) -> list[Event] | None:
        """The end of the content, where this is one of its stop tokens."""
        if token not in self._stop_ids or not self._segmenter.in_content:
            return None
        self._stop_id = token
        said = self._segmenter.feed([token], [text]) if self._request.include_stop else []
        *before, _ = self._segmenter.finish("stop")
        return [*said, *before, Finish("stop", token)]

    async def _passed(self, events: list[Event]) -> list[Event]:
        shown, wrong = await self._calls.passed(self._checked(events))
        if wrong is not None and self._retries is not None:
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
                    events[at] = replace(event, reason="stop")
        if not self._request.include_reasoning:
            return [event for event in events if not isinstance(event, ReasoningDelta)]
        return events
