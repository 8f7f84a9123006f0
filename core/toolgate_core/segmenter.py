"""Segmentation of one choice's tokens into reasoning, content and tool calls, and its stop strings.

Marks are recognised by token id, so text that looks like a mark stays text. The segmenter has no
I/O and no clock. The events do not depend on how the tokens are split over calls of `feed`, except
for the split of their text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from .deltas import ContentDelta, Event, Finish
from .dialects.arguments.parser import overlap
from .dialects.dialect import Dialect
from .errors import EnforcementFailed
from .segmentation.turn_form import turn_form
from .segmentation.turn_reader import TurnReader
from .wire import MarkIds, TokenLogprob

RUN = 16
"""Maximum number of tokens that become one event, so that the arguments of a long call are sent in
parts. Free text that arrives together is one event if no text can begin a call."""


class Segmenter:
    """Segments one choice. `schemas` are the parameters of the tools, by name. With `required`, the
    choice must have a call unless `max_tokens` ends it."""

    def __init__(
        self,
        dialect: Dialect,
        marks: MarkIds,
        *,
        schemas: Mapping[str, Mapping[str, Any]] | None = None,
        reasoning_open: bool = False,
        required: bool = False,
    ) -> None:
        self._form = turn_form(dialect, tuple(sorted(marks.tokens.items())))
        self._symbols = self._form.marks.symbol_of_token
        self._failure, self._cut = marks.failure, marks.cut
        self._silent = frozenset(marks.end_of_turn) | {marks.failure, marks.cut}
        self._required = required
        self._turn = TurnReader(self._form, schemas or {}, reasoning_open=reasoning_open)

    def copy(self) -> Segmenter:
        """Return an independent copy with the same state."""
        twin = copy(self)
        twin._turn = self._turn.copy()
        return twin

    @property
    def in_content(self) -> bool:
        return self._turn.in_content

    @property
    def in_call(self) -> bool:
        """Whether a call has begun and is not complete."""
        return self._turn.calls.in_call

    @property
    def call_token(self) -> int | None:
        """The token that begins the calls; None if a text begins them."""
        return self._form.trigger_token()

    @property
    def reasoning_tokens(self) -> int:
        return self._turn.reasoning_tokens

    def feed(
        self,
        ids: Sequence[int],
        texts: Sequence[str],
        logprobs: Sequence[TokenLogprob] | None = None,
    ) -> list[Event]:
        """Return the events of these tokens. Raise EnforcementFailed for text or marks in the wrong
        place."""
        if logprobs is None and self._is_free_text(ids):
            tokens = zip(ids, texts, strict=True)
            return [*self._run([text for token, text in tokens if token not in self._silent])]
        events: list[Event] = []
        run: list[str] = []
        for position, (token, text) in enumerate(zip(ids, texts, strict=True)):
            if token in self._symbols:
                events += self._run(run)
                run = []
                self._turn.count(1)
                events += self._turn.mark(self._symbols[token])
            elif token in self._silent:
                continue
            elif logprobs is not None:
                events += self._run([text], logprobs[position])
            else:
                run.append(text)
                if len(run) == RUN or self._form.text_in_reasoning:
                    events += self._run(run)
                    run = []
        events += self._run(run)
        return events

    def _is_free_text(self, ids: Sequence[int]) -> bool:
        """Whether all of these tokens are reasoning, or content, and end neither."""
        is_free = self._turn.is_free and self._form.marks_end_text
        return is_free and self._symbols.keys().isdisjoint(ids)

    def _run(self, texts: Sequence[str], logprob: TokenLogprob | None = None) -> Sequence[Event]:
        """Return the events of text tokens. With a `logprob` there is exactly one token."""
        if not texts:
            return ()
        self._turn.count(len(texts))
        return self._turn.feed("".join(texts), logprob)

    def finish(
        self, finish_reason: str, stop_reason: int | str | None = None, text: str = ""
    ) -> list[Event]:
        """Return the last events of a choice that ended with vLLM's `finish_reason`. `text` is the
        rest of an incomplete character. Raise EnforcementFailed if the choice cannot end here."""
        if finish_reason not in ("stop", "length"):
            raise EnforcementFailed("The engine ended the response early. Send the request again.")
        if stop_reason is not None and stop_reason == self._failure:
            raise EnforcementFailed(
                "The enforcement of this request failed in the engine. Send the request again."
            )
        turn, events = self._turn, list[Event]()
        free = turn.is_free
        if text and free:
            events += turn.feed(text)
        repeats = stop_reason is not None and stop_reason == self._cut
        if finish_reason == "length" or repeats:
            if free:
                return [*events, *turn.release(), Finish("length", repeats=repeats)]
            return turn.calls.cut(repeats=repeats)
        calls = turn.calls.complete
        if not turn.may_end or (self._required and not calls):
            raise EnforcementFailed(
                "The response ended before it was complete. Send the request again."
            )
        if free:
            events += turn.release()
        return [*events, Finish("tool_calls" if calls else "stop")]


class StopStrings:
    """A filter for the segmenter's events of one choice: stop strings end the content, and are
    ignored in reasoning and calls."""

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        """With `include`, the content includes the stop string."""
        self._stops = tuple(stop for stop in stops if stop)
        self._include = include
        self._withheld = ""
        self.hit: str | None = None
        """The stop string that ended the choice."""

    def copy(self) -> StopStrings:
        """Return a copy with the same state."""
        return copy(self)

    def filter(self, events: Iterable[Event]) -> list[Event]:
        """Return the events, with content cut at the first stop string and followed by
        Finish("stop")."""
        if not self._stops:
            return list(events)
        passed: list[Event] = []
        for event in events:
            if self.hit is not None:
                break
            if isinstance(event, ContentDelta):
                passed.extend(self._content(event))
            else:
                passed.extend(self._release())
                passed.append(event)
        return passed

    def _content(self, delta: ContentDelta) -> Iterable[Event]:
        text = self._withheld + delta.text
        places = [(at + len(s), at, s) for s in self._stops if (at := text.find(s)) >= 0]
        if places:
            end, at, self.hit = min(places)  # the one completed first, for any split of the text
            sent = text[: end if self._include else at]
            return (ContentDelta(sent, delta.logprobs), Finish("stop", self.hit))
        keep = max(overlap(text, stop) for stop in self._stops)
        sent, self._withheld = text[: len(text) - keep], text[len(text) - keep :]
        return (ContentDelta(sent, delta.logprobs),) if sent or delta.logprobs else ()

    def _release(self) -> Iterable[Event]:
        withheld, self._withheld = self._withheld, ""
        return (ContentDelta(withheld),) if withheld else ()
