"""One choice's tokens → reasoning, content and tool calls.

Marks are told by token id, so text that merely looks like a mark is text. `feed` and `finish` are
the only verbs; there is no I/O and no clock, and any split of the same tokens over any number of
`feed` calls gives the same events up to the concatenation of their text.
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
"""Tokens between marks that are taken in at once. They come out in one piece, and the arguments of
a long call are to arrive in parts."""


class _Phase(Enum):
    REASONING = auto()
    CONTENT = auto()
    CALL_HEAD = auto()
    CALL_ARGUMENTS = auto()
    AFTER_CALL = auto()


@dataclass
class _Held:
    """Text that is kept back until it is known to belong to the answer."""

    text: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)

    def take(self) -> tuple[str, tuple[TokenLogprob, ...]]:
        taken = self.text, tuple(self.logprobs)
        self.text, self.logprobs = "", []
        return taken


class Segmenter:
    """Segments one choice. `required` says that it must hold a call when it ends by itself."""

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
        self._held = _Held()
        self._begun = False  # whether the current stretch of text has shown anything yet
        self._skip = ""  # text the dialect writes after the reasoning, still to be passed over
        self._calls = 0
        self._arguments: list[str] = []
        self.reasoning_tokens = 0

    def copy(self) -> Segmenter:
        """Another one in the same state; what is fed to either is nothing to the other."""
        twin = copy(self)
        twin._held = _Held(self._held.text, [*self._held.logprobs])
        twin._arguments = [*self._arguments]
        return twin

    @property
    def in_content(self) -> bool:
        return self._phase is _Phase.CONTENT

    @property
    def calls(self) -> int:
        """Calls begun so far, the current one included."""
        return self._calls

    def feed(
        self,
        ids: Sequence[int],
        texts: Sequence[str],
        logprobs: Sequence[TokenLogprob] | None = None,
    ) -> list[Event]:
        """Tokens in, events out. Raises EnforcementFailed where a mark stands out of its place."""
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
        """The choice has ended, for vLLM's `finish_reason`. Raises EnforcementFailed when it broke.

        `text` is what was left of an unfinished character.
        """
        if finish_reason not in ("stop", "length"):
            raise EnforcementFailed("The engine ended this answer early; send the request again.")
        if stop_reason is not None and stop_reason == self._marks.failure:
            raise EnforcementFailed(
                "The grammar of this request failed in the engine; send the request again."
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
            raise EnforcementFailed("The answer ended where it must not; send the request again.")
        events.extend(self._release())
        return [*events, Finish("tool_calls" if self._calls else "stop")]

    def _run(self, texts: Sequence[str], logprob: TokenLogprob | None = None) -> Iterable[Event]:
        """Tokens that are no marks; a `logprob` is that of the only one."""
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
            self._held.take()
            self._phase = _Phase.REASONING
            self.reasoning_tokens += 1
            return ()
        if token == marks.reasoning_end and self._phase is _Phase.REASONING:
            self._held.take()
            self._phase, self._begun = _Phase.CONTENT, False
            self._skip = self._dialect.after_reasoning
            return ()
        if token == marks.call_begin and self._phase in (_Phase.CONTENT, _Phase.AFTER_CALL):
            self._held.take()
            self._phase = _Phase.CALL_HEAD
            return ()
        if token == marks.call_end and self._phase is _Phase.CALL_ARGUMENTS:
            return self._close_call()
        raise EnforcementFailed("A mark came where it must not; send the request again.")

    def _text(self, text: str, logprob: TokenLogprob | None) -> Iterable[Event]:
        if self._phase is _Phase.AFTER_CALL:
            return ()  # the separator between two calls
        if self._phase in (_Phase.CALL_HEAD, _Phase.CALL_ARGUMENTS) and logprob is not None:
            self._held.logprobs.append(logprob)
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
        """Reasoning or content: white space at its end waits for what follows, since a model writes
        line breaks around its marks that are no part of the answer."""
        held = self._held
        if self._phase is _Phase.REASONING and not self._begun and not held.text:
            text = text.lstrip("\n")
        held.text += text
        if logprob is not None:
            held.logprobs.append(logprob)
        if not text or text.isspace():
            return ()
        self._begun = True
        whole, logprobs = held.take()
        shown = whole.rstrip()
        held.text = whole[len(shown) :]
        return (self._delta(shown, logprobs),)

    def _delta(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> Event:
        if self._phase is _Phase.REASONING:
            return ReasoningDelta(text, logprobs)
        return ContentDelta(text, logprobs)

    def _release(self) -> Iterable[Event]:
        text, logprobs = self._held.take()
        if not text and not logprobs:
            return ()
        return (self._delta(text, logprobs),)

    def _head(self, text: str) -> Iterable[Event]:
        """The envelope up to the arguments: nothing is shown before the name is whole."""
        held, dialect = self._held, self._dialect
        held.text += text
        if not held.text.startswith(dialect.envelope_head):
            return ()
        name, middle, rest = held.text[len(dialect.envelope_head) :].partition(
            dialect.envelope_middle
        )
        if not middle:
            return ()
        _, logprobs = held.take()
        self._phase, self._arguments = _Phase.CALL_ARGUMENTS, []
        self._calls += 1
        return (CallStart(self._calls - 1, name, logprobs), *self._tail(rest))

    def _tail(self, text: str) -> Iterable[Event]:
        """Arguments, with the last characters kept back: they may be the envelope's tail, and the
        arguments' own last character is shown with the end of the call only."""
        held = self._held
        held.text += text
        keep = len(self._dialect.envelope_tail) + 1
        shown, held.text = held.text[:-keep], held.text[-keep:]
        return self._show_arguments(shown)

    def _show_arguments(self, text: str) -> Iterable[Event]:
        if not text:
            return ()
        self._arguments.append(text)
        logprobs, self._held.logprobs = tuple(self._held.logprobs), []
        return (ArgumentsDelta(self._calls - 1, text, logprobs),)

    def _close_call(self) -> Iterable[Event]:
        held, logprobs = self._held.take()
        last = held.removesuffix(self._dialect.envelope_tail)
        if last == held or not _is_object("".join(self._arguments) + last):
            raise EnforcementFailed("A tool call ended unparseable; send the request again.")
        rest = self._show_arguments(last)
        self._phase, self._arguments = _Phase.AFTER_CALL, []
        return (*rest, CallEnd(self._calls - 1, logprobs))

    def _cut(self) -> Iterable[Event]:
        """The token budget ended the choice: what was kept back is shown, but the envelope's. Where
        the arguments are whole by then, the call has ended too."""
        if self._phase in (_Phase.REASONING, _Phase.CONTENT):
            return self._release()
        held = self._held.text
        if self._phase is not _Phase.CALL_ARGUMENTS:
            return ()
        shown = "".join(self._arguments)
        try:
            _, end = json.JSONDecoder().raw_decode(shown + held)
        except (ValueError, RecursionError):
            return self._show_arguments(held)
        rest = self._show_arguments((shown + held)[len(shown) : end])
        return (*rest, CallEnd(self._calls - 1))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
