"""Reads the text of a turn: reasoning, content and calls, one after the other.

Texts are encoded (`Marks.encode`), so that a mark is one character.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from enum import Enum, auto
from os.path import commonprefix
from typing import Any

from ..deltas import ContentDelta, Event, ReasoningDelta
from ..errors import EnforcementFailed
from ..wire import TokenLogprob
from .call_reader import CallSequence
from .turn_form import FreeText, MessageKind, Messages, TurnForm


class _Phase(Enum):
    REASONING = auto()
    CONTENT = auto()
    AFTER_CONTENT = auto()
    CALLS = auto()


class TurnReader:
    """`schemas` are the parameters of the tools, by name. `reasoning_open`: the turn begins inside
    the reasoning."""

    def __init__(
        self,
        form: TurnForm,
        schemas: Mapping[str, Mapping[str, Any]],
        *,
        reasoning_open: bool,
    ) -> None:
        self._form = form
        self._triggers = form.triggers(schemas)
        self._messages = Messages(form, self._triggers) if form.content_begin else None
        self._message: MessageKind | None = None  # the message of content that has begun
        self._phase = _Phase.REASONING if reasoning_open else _Phase.CONTENT
        self._free = FreeText()
        self._begun = False  # whether the current reasoning or content has had an event
        self._skip = ""  # rest of the text after the reasoning, which is skipped
        self._skipped = ""  # the beginning of that text that has been read
        self._content_end = ""  # the text that ends the content
        self._after = ""  # text after a message of content
        self._has_mark = False  # whether withheld text may contain a mark
        self.calls = CallSequence(form, schemas)
        self.reasoning_tokens = 0

    def copy(self) -> TurnReader:
        """Return an independent copy with the same state."""
        twin = copy(self)
        twin._free, twin.calls = self._free.copy(), self.calls.copy()
        return twin

    @property
    def in_content(self) -> bool:
        return self._phase is _Phase.CONTENT

    @property
    def is_free(self) -> bool:
        """Whether the text is reasoning or content."""
        return self._phase in (_Phase.REASONING, _Phase.CONTENT)

    @property
    def may_end(self) -> bool:
        """Whether the turn may end here."""
        if self._phase is _Phase.CALLS:
            return not self.calls.in_call
        return self._phase is not _Phase.REASONING and self._message is not MessageKind.PREAMBLE

    def count(self, tokens: int) -> None:
        """Count the tokens that are read next."""
        if self._phase is _Phase.REASONING:
            self.reasoning_tokens += tokens

    def mark(self, symbol: str) -> list[Event]:
        """Read the character of a mark."""
        self._has_mark = True
        return self.feed(symbol)

    def feed(self, text: str, logprob: TokenLogprob | None = None) -> list[Event]:
        """Read text: of one token, if there is a `logprob`. Raise EnforcementFailed for text or
        marks in the wrong place."""
        events: list[Event] = []
        if self._phase is _Phase.CALLS:
            self.calls.feed(text, (logprob,) if logprob is not None else (), events)
        elif self._phase is _Phase.AFTER_CONTENT:
            self._after_content(text, events)
        else:
            self._free_text(text, logprob, events)
        return events

    def release(self) -> list[Event]:
        """Return the events of withheld text at the end of the turn."""
        events: list[Event] = []
        text, logprobs = self._free.take()
        if self._messages and self._phase is _Phase.CONTENT and self._message is None:
            return events  # the beginning of a message
        text = self._skipped.lstrip() + self._without_begun_mark(self._without_end(text))
        if text or logprobs:
            self._send(text, logprobs, events)
        return events

    def _free_text(self, text: str, logprob: TokenLogprob | None, events: list[Event]) -> None:
        if self._skip:
            text = self._skipped + text
            passed = len(commonprefix((text, self._skip)))
            if passed == len(text) < len(self._skip):
                self._skipped = text
                return
            # Of a text that differs, only white space is skipped.
            partial = text[:passed].lstrip() if passed < len(self._skip) else ""
            text = partial + text[passed:]
            self._skip = self._skipped = ""
            if not text:
                return
        reasoning = self._phase is _Phase.REASONING
        if reasoning and not self._begun and not self._free.text:
            text = text.lstrip("\n")
        self._free.add(text, logprob)
        if reasoning:
            self._in_reasoning(events)
        else:
            self._in_content(events)

    def _in_reasoning(self, events: list[Event]) -> None:
        end = self._form.reasoning_end
        place = self._free.find((end,))
        if place is None:
            self._release((end,), events)
            return
        rest = self._split(place, events)
        self._phase, self._begun = _Phase.CONTENT, False
        self._skip = self._form.after_reasoning
        self._content_end = self._form.end_after_reasoning
        if rest:
            self._free_text(rest, None, events)

    def _in_content(self, events: list[Event]) -> None:
        if self._messages is not None:
            if self._message is None:
                self._begin_message(self._messages, events)
            else:
                self._in_message(self._messages.end(self._message), events)
            return
        begin = self._form.reasoning_begin
        if begin and not self._begun:
            written = self._free.text.lstrip()
            if written.startswith(begin):
                self._free.take()
                self._phase = _Phase.REASONING
                self.reasoning_tokens += 1
                if rest := written.removeprefix(begin):
                    self._free_text(rest, None, events)
                return
            if written and begin.startswith(written):
                return
        calls = self._form.calls
        at_start = calls is not None and calls.only_at_start
        triggers = () if at_start and self._begun else self._triggers
        place = self._free.find(triggers, at_start=at_start)
        if place is None:
            if at_start and any(each.startswith(self._free.text) for each in triggers):
                return
            end = self._content_end
            if not end:
                self._release(() if at_start else triggers, events)
            elif not self._free.text.rstrip().endswith(end):
                self._release((end, *triggers), events)
            return
        at, _ = place
        # The logprobs of the withheld text are those of the call if it has begun in that text.
        in_text = self._form.trigger_token() is None and not self._free.text[:at].strip()
        logprobs = tuple(self._free.logprobs) if in_text else ()
        rest = self._split((at, ""), events)
        self._begin_calls(rest, logprobs, events)

    def _begin_message(self, messages: Messages, events: list[Event]) -> None:
        written = self._free.text.lstrip("\n")
        begun = messages.begun(written)
        if begun is None:
            if not messages.may_begin(written):
                self._message = MessageKind.CONTENT  # the prompt has begun the content
                self._in_message(self._form.content_end, events)
            return
        message, begin = begun
        self._free.take()
        if message is MessageKind.CALLS:
            self._begin_calls(written, (), events)
            return
        if message is MessageKind.REASONING:
            self._phase = _Phase.REASONING
            self.reasoning_tokens += 1
        else:
            self._message = message
        if rest := written.removeprefix(begin):
            self._free_text(rest, None, events)

    def _in_message(self, end: str, events: list[Event]) -> None:
        place = self._free.find((end,)) if end else None
        if place is None:
            self._release((end,) if end else (), events)
            return
        rest = self._split(place, events)
        self._phase = _Phase.AFTER_CONTENT
        if rest:
            self._after_content(rest, events)

    def _after_content(self, text: str, events: list[Event]) -> None:
        """The calls after a message of content, or the text that ends the turn."""
        self._after += text
        written, is_preamble = self._after, self._message is MessageKind.PREAMBLE
        may_call = is_preamble or self._form.preamble == self._form.content_begin
        triggers = self._triggers if may_call else ()
        if any(written.startswith(each) for each in triggers):
            self._begin_calls(written, (), events)
            return
        following = (*triggers, "" if is_preamble else self._form.content_last)
        if written.strip() and not any(each.startswith(written) for each in following):
            raise EnforcementFailed(
                "The model wrote text after its content. Send the request again."
            )

    def _split(self, place: tuple[int, str], events: list[Event]) -> str:
        """Send the text before `place` without its trailing white space; the text after it."""
        at, end = place
        text, logprobs = self._free.take()
        if before := self._without_end(text[:at]).rstrip():
            self._send(before, logprobs, events)
        return text[at + len(end) :]

    def _without_end(self, text: str) -> str:
        """Return the content `text` without the text that ends it."""
        end = self._content_end
        written = text.rstrip()
        return written.removesuffix(end).rstrip() if end and written.endswith(end) else text

    def _without_begun_mark(self, text: str) -> str:
        """`text` without the beginning of the text that ends it, or with which reasoning or calls
        begin, if that has a mark: a response can be cut in the middle of it."""
        if self._phase is _Phase.REASONING:
            end = self._form.reasoning_end
        elif self._messages is not None and self._message is not None:
            end = self._messages.end(self._message)
        else:
            end = self._content_end
        following = (end, self._form.reasoning_begin, *self._triggers)
        first = next((at for at, each in enumerate(text) if self._form.marks.is_mark(each)), -1)
        for at in range(first + 1):
            if any(each.startswith(text[at:]) for each in following):
                return text[:at].rstrip()
        return text

    def _release(self, ends: Sequence[str], events: list[Event]) -> None:
        text, logprobs = self._free.release(ends)
        if text:
            self._send(text, logprobs, events)

    def _send(self, text: str, logprobs: tuple[TokenLogprob, ...], events: list[Event]) -> None:
        if self._has_mark:
            if any(self._form.marks.is_mark(char) for char in text):
                raise EnforcementFailed(
                    "The model wrote a misplaced marker token. Send the request again."
                )
            self._has_mark = False
        self._begun = True
        if self._phase is _Phase.REASONING:
            events.append(ReasoningDelta(text, logprobs))
        else:
            events.append(ContentDelta(text, logprobs))

    def _begin_calls(
        self, text: str, logprobs: tuple[TokenLogprob, ...], events: list[Event]
    ) -> None:
        self._phase = _Phase.CALLS
        self.calls.begin(text, logprobs, events)
