"""Segmentation of one choice's tokens into reasoning, content and tool calls.

Marker tokens are recognised by id, so text that looks like one stays text. The segmenter has no I/O
and no clock. The events do not depend on how the tokens are split over calls of `feed`, except for
the split of their text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import Enum, auto
from os.path import commonprefix

from .deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    Finish,
    ReasoningDelta,
)
from .dialect import Dialect
from .errors import EnforcementFailed
from .wire import MarkIds, TokenLogprob

RUN = 16
"""Maximum number of tokens that become one event, so that the arguments of a long call are sent in
parts."""


class _Phase(Enum):
    REASONING = auto()
    CONTENT = auto()
    CALL_HEAD = auto()
    CALL_ARGUMENTS = auto()
    AFTER_CALL = auto()


@dataclass
class _Withheld:
    """Text that is withheld until it is known to be part of the response."""

    text: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)

    def take(self) -> tuple[str, tuple[TokenLogprob, ...]]:
        taken = self.text, tuple(self.logprobs)
        self.text, self.logprobs = "", []
        return taken


class Segmenter:
    """Segments one choice. With `required`, it must have a call unless `max_tokens` ends it."""

    def __init__(
        self,
        dialect: Dialect,
        marks: MarkIds,
        *,
        reasoning_open: bool = False,
        required: bool = False,
    ) -> None:
        self._dialect = dialect
        self._marks = marks
        self._every_mark = marks.every
        self._required = required
        self._phase = _Phase.REASONING if reasoning_open else _Phase.CONTENT
        self._withheld = _Withheld()
        self._begun = False  # whether the current reasoning or content has had an event
        self._skip = ""  # rest of the text after the reasoning, which is skipped
        self._calls = 0
        self._arguments: list[str] = []
        self.reasoning_tokens = 0

    def copy(self) -> Segmenter:
        """An independent copy with the same state."""
        twin = copy(self)
        twin._withheld = _Withheld(self._withheld.text, [*self._withheld.logprobs])
        twin._arguments = [*self._arguments]
        return twin

    @property
    def in_content(self) -> bool:
        return self._phase is _Phase.CONTENT

    @property
    def calls(self) -> int:
        """Number of calls so far, including the current one."""
        return self._calls

    def feed(
        self,
        ids: Sequence[int],
        texts: Sequence[str],
        logprobs: Sequence[TokenLogprob] | None = None,
    ) -> list[Event]:
        """The events of these tokens. Raises EnforcementFailed for a misplaced marker token."""
        events: list[Event] = []
        run: list[str] = []
        for position, (token, text) in enumerate(zip(ids, texts, strict=True)):
            if token in self._every_mark:
                events += self._run(run)
                events += self._mark(token)
                run = []
            elif logprobs is not None:
                events += self._run([text], logprobs[position])
            else:
                run.append(text)
                if len(run) == RUN:
                    events += self._run(run)
                    run = []
        events += self._run(run)
        return events

    def finish(
        self, finish_reason: str, stop_reason: int | str | None = None, text: str = ""
    ) -> list[Event]:
        """The last events of a choice that ended with vLLM's `finish_reason`. `text` is the rest of
        an incomplete character. Raises EnforcementFailed if the choice can't end here."""
        if finish_reason not in ("stop", "length"):
            raise EnforcementFailed("The engine ended the response early. Send the request again.")
        if stop_reason is not None and stop_reason == self._marks.failure:
            raise EnforcementFailed(
                "The enforcement of this request failed in the engine. Send the request again."
            )
        events: list[Event] = []
        if text and self._phase in (_Phase.REASONING, _Phase.CONTENT):
            events.extend(self._text(text, None))
        if stop_reason is not None and stop_reason == self._marks.closed:
            return [Finish("length", call="closed")]
        if finish_reason == "length":
            events.extend(self._cut())
            in_call = self._phase in (_Phase.CALL_HEAD, _Phase.CALL_ARGUMENTS)
            cut = in_call and not _is_object("".join(self._arguments))
            return [*events, Finish("length", call="cut" if cut else None)]
        if self._phase not in (_Phase.CONTENT, _Phase.AFTER_CALL) or (
            self._required and not self._calls
        ):
            raise EnforcementFailed(
                "The response ended before it was complete. Send the request again."
            )
        events.extend(self._release())
        return [*events, Finish("tool_calls" if self._calls else "stop")]

    def _run(self, texts: Sequence[str], logprob: TokenLogprob | None = None) -> Iterable[Event]:
        """The events of text tokens. With a `logprob` there is exactly one token."""
        if self._phase is _Phase.REASONING:
            self.reasoning_tokens += len(texts)
        return self._text("".join(texts), logprob) if texts else ()

    def _mark(self, token: int) -> Iterable[Event]:
        if self._phase is _Phase.REASONING:
            self.reasoning_tokens += 1
        marks = self._marks
        if token in marks.end_of_turn or token in (marks.failure, marks.closed):
            return ()
        if token == marks.reasoning_begin and self._phase is _Phase.CONTENT and not self._begun:
            self._withheld.take()
            self._phase = _Phase.REASONING
            self.reasoning_tokens += 1
            return ()
        if token == marks.reasoning_end and self._phase is _Phase.REASONING:
            self._withheld.take()
            self._phase, self._begun = _Phase.CONTENT, False
            self._skip = self._dialect.after_reasoning
            return ()
        if token == marks.call_begin and self._phase in (_Phase.CONTENT, _Phase.AFTER_CALL):
            self._withheld.take()
            self._phase = _Phase.CALL_HEAD
            return ()
        if token == marks.call_end and self._phase is _Phase.CALL_ARGUMENTS:
            return self._close_call()
        raise EnforcementFailed("The model wrote a misplaced marker token. Send the request again.")

    def _text(self, text: str, logprob: TokenLogprob | None) -> Iterable[Event]:
        if self._phase is _Phase.AFTER_CALL:
            return ()  # the separator between two calls
        if self._phase in (_Phase.CALL_HEAD, _Phase.CALL_ARGUMENTS) and logprob is not None:
            self._withheld.logprobs.append(logprob)
        if self._phase is _Phase.CALL_HEAD:
            return self._head(text)
        if self._phase is _Phase.CALL_ARGUMENTS:
            return self._tail(text)
        if self._skip:
            passed = len(commonprefix((text, self._skip)))
            self._skip = self._skip[passed:] if passed == len(text) else ""
            text = text[passed:]
            if passed and not text:
                return ()
        return self._prose(text, logprob)

    def _prose(self, text: str, logprob: TokenLogprob | None) -> Iterable[Event]:
        """The events of reasoning or content. Trailing white space is withheld: models write line
        breaks around marker tokens, which are not part of the response."""
        withheld = self._withheld
        if self._phase is _Phase.REASONING and not self._begun and not withheld.text:
            text = text.lstrip("\n")
        withheld.text += text
        if logprob is not None:
            withheld.logprobs.append(logprob)
        if not text or text.isspace():
            return ()
        self._begun = True
        whole, logprobs = withheld.take()
        released = whole.rstrip()
        withheld.text = whole[len(released) :]
        return (self._delta(released, logprobs),)

    def _delta(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> Event:
        if self._phase is _Phase.REASONING:
            return ReasoningDelta(text, logprobs)
        return ContentDelta(text, logprobs)

    def _release(self) -> Iterable[Event]:
        text, logprobs = self._withheld.take()
        if not text and not logprobs:
            return ()
        return (self._delta(text, logprobs),)

    def _head(self, text: str) -> Iterable[Event]:
        """The events of the envelope up to the arguments: none before the name is complete."""
        withheld, dialect = self._withheld, self._dialect
        withheld.text += text
        if not withheld.text.startswith(dialect.envelope_head):
            return ()
        name, middle, rest = withheld.text[len(dialect.envelope_head) :].partition(
            dialect.envelope_middle
        )
        if not middle:
            return ()
        _, logprobs = withheld.take()
        self._phase, self._arguments = _Phase.CALL_ARGUMENTS, []
        self._calls += 1
        return (CallStart(self._calls - 1, name, logprobs), *self._tail(rest))

    def _tail(self, text: str) -> Iterable[Event]:
        """The events of arguments. The last characters are withheld: they may be the envelope's
        tail, and the last character of the arguments is sent with the end of the call."""
        withheld = self._withheld
        withheld.text += text
        keep = len(self._dialect.envelope_tail) + 1
        released, withheld.text = withheld.text[:-keep], withheld.text[-keep:]
        return self._arguments_events(released)

    def _arguments_events(self, text: str) -> Iterable[Event]:
        if not text:
            return ()
        self._arguments.append(text)
        logprobs, self._withheld.logprobs = tuple(self._withheld.logprobs), []
        return (ArgumentsDelta(self._calls - 1, text, logprobs),)

    def _close_call(self) -> Iterable[Event]:
        withheld, logprobs = self._withheld.take()
        last = withheld.removesuffix(self._dialect.envelope_tail)
        if last == withheld or not _is_object("".join(self._arguments) + last):
            raise EnforcementFailed(
                "The arguments of a tool call are not valid JSON. Send the request again."
            )
        rest = self._arguments_events(last)
        self._phase, self._arguments = _Phase.AFTER_CALL, []
        return (*rest, CallEnd(self._calls - 1, logprobs))

    def _cut(self) -> Iterable[Event]:
        """The events at the end by `max_tokens`: withheld text without the envelope's, and the end
        of the call if its arguments are complete."""
        if self._phase in (_Phase.REASONING, _Phase.CONTENT):
            return self._release()
        withheld = self._withheld.text
        if self._phase is not _Phase.CALL_ARGUMENTS:
            return ()
        released = "".join(self._arguments)
        try:
            _, end = json.JSONDecoder().raw_decode(released + withheld)
        except (ValueError, RecursionError):
            return self._arguments_events(withheld)
        rest = self._arguments_events((released + withheld)[len(released) : end])
        return (*rest, CallEnd(self._calls - 1))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
