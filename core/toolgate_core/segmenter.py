"""Segmentation of one choice's tokens into reasoning, content and tool calls.

Marks are recognised by token id, so text that looks like a mark stays text. The segmenter has no
I/O and no clock. The events do not depend on how the tokens are split over calls of `feed`, except
for the split of their text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from enum import Enum, auto
from os.path import commonprefix
from typing import Any

from .deltas import ContentDelta, Event, Finish, ReasoningDelta
from .dialects.dialect import Dialect
from .errors import EnforcementFailed
from .segmentation.call_reader import CallReader
from .segmentation.free_text import FreeText
from .segmentation.messages import Message, Messages
from .segmentation.turn_form import turn_form
from .wire import MarkIds, TokenLogprob

RUN = 16
"""Maximum number of tokens that become one event, so that the arguments of a long call are sent in
parts."""


class _Phase(Enum):
    REASONING = auto()
    CONTENT = auto()
    AFTER_CONTENT = auto()
    CALL = auto()
    AFTER_CALL = auto()


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
        self._failure, self._closed = marks.failure, marks.closed
        self._silent = frozenset(marks.end_of_turn) | {marks.failure, marks.closed}
        self._schemas = schemas or {}
        self._triggers = self._form.triggers(self._schemas)
        self._messages = Messages(self._form, self._triggers) if self._form.content_begin else None
        self._message: Message | None = None  # the message of content that has begun
        self._required = required
        self._phase = _Phase.REASONING if reasoning_open else _Phase.CONTENT
        self._free = FreeText()
        self._begun = False  # whether the current reasoning or content has had an event
        self._skip = ""  # rest of the text after the reasoning, which is skipped
        self._skipped = ""  # the beginning of that text that has been read
        self._content_end = ""  # the text that ends the content
        self._between = ""  # text after a call
        self._reader: CallReader | None = None
        self._calls = 0
        self._has_mark = False  # whether withheld text may contain a mark
        self.reasoning_tokens = 0
        self.call_tokens: tuple[int, ...] = ()
        """About the number of tokens of each complete call: of tokens that arrive together, up to
        `RUN` before and after the call count as the call's."""
        self._tokens = 0
        self._tokens_before = 0  # before those that are read now
        self._call_began = 0

    def copy(self) -> Segmenter:
        """An independent copy with the same state."""
        twin = copy(self)
        twin._free = self._free.copy()
        twin._reader = self._reader.copy() if self._reader is not None else None
        return twin

    @property
    def in_content(self) -> bool:
        return self._phase is _Phase.CONTENT

    @property
    def in_call(self) -> bool:
        """Whether a call has begun and is not complete."""
        return self._phase is _Phase.CALL

    @property
    def call_token(self) -> int | None:
        """The token that begins the calls; None if a text begins them."""
        return self._form.trigger_token()

    @property
    def calls(self) -> int:
        """Number of calls so far, including the current one."""
        named = self._reader is not None and self._reader.has_name
        return self._calls + (named and self._phase is _Phase.CALL)

    def feed(
        self,
        ids: Sequence[int],
        texts: Sequence[str],
        logprobs: Sequence[TokenLogprob] | None = None,
    ) -> list[Event]:
        """The events of these tokens. Raises EnforcementFailed for text or marks in the wrong
        place."""
        events: list[Event] = []
        run: list[str] = []
        for position, (token, text) in enumerate(zip(ids, texts, strict=True)):
            if token in self._symbols:
                events += self._run(run)
                run = []
                events += self._mark(self._symbols[token])
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

    def _run(self, texts: Sequence[str], logprob: TokenLogprob | None = None) -> Iterable[Event]:
        """The events of text tokens. With a `logprob` there is exactly one token."""
        if not texts:
            return ()
        if self._phase is _Phase.REASONING:
            self.reasoning_tokens += len(texts)
        self._count(len(texts))
        return self._text("".join(texts), logprob)

    def _mark(self, symbol: str) -> Iterable[Event]:
        if self._phase is _Phase.REASONING:
            self.reasoning_tokens += 1
        self._count(1)
        self._has_mark = True
        return self._text(symbol, None)

    def _count(self, tokens: int) -> None:
        self._tokens_before, self._tokens = self._tokens, self._tokens + tokens

    # --- text ---

    def _text(self, text: str, logprob: TokenLogprob | None) -> list[Event]:
        events: list[Event] = []
        if self._phase is _Phase.CALL:
            self._read_call(text, (logprob,) if logprob is not None else (), events)
        elif self._phase is _Phase.AFTER_CALL:
            self._after_call(text, events)
        elif self._phase is _Phase.AFTER_CONTENT:
            self._after_content(text, events)
        else:
            self._free_text(text, logprob, events)
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
        found = self._free.find((end,))
        if found is None:
            self._release((end,), events)
            return
        rest = self._split(found, events)
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
        found = self._free.find(triggers, at_start=at_start)
        if found is None:
            if at_start and any(each.startswith(self._free.text) for each in triggers):
                return
            end = self._content_end
            if not end:
                self._release(() if at_start else triggers, events)
            elif not self._free.text.rstrip().endswith(end):
                self._release((end, *triggers), events)
            return
        at, _ = found
        # The logprobs of the withheld text are those of the call if it has begun in that text.
        in_text = self.call_token is None and not self._free.text[:at].strip()
        logprobs = tuple(self._free.logprobs) if in_text else ()
        rest = self._split((at, ""), events)
        self._begin_call(self._form.first_call, events)
        self._read_call(rest, logprobs, events)

    def _begin_message(self, messages: Messages, events: list[Event]) -> None:
        written = self._free.text.lstrip("\n")
        begun = messages.begun(written)
        if begun is None:
            if not messages.may_begin(written):
                self._message = Message.CONTENT  # the prompt has begun the content
                self._in_message(self._form.content_end, events)
            return
        message, begin = begun
        self._free.take()
        if message is Message.CALLS:
            self._begin_call(self._form.first_call, events)
            self._read_call(written, (), events)
            return
        if message is Message.REASONING:
            self._phase = _Phase.REASONING
            self.reasoning_tokens += 1
        else:
            self._message = message
        if rest := written.removeprefix(begin):
            self._free_text(rest, None, events)

    def _in_message(self, end: str, events: list[Event]) -> None:
        found = self._free.find((end,)) if end else None
        if found is None:
            self._release((end,) if end else (), events)
            return
        rest = self._split(found, events)
        self._phase, self._has_mark = _Phase.AFTER_CONTENT, False
        if rest:
            self._after_content(rest, events)

    def _after_content(self, text: str, events: list[Event]) -> None:
        """The calls after a message of content, or the text that ends the turn."""
        self._between += text
        written, is_preamble = self._between, self._message is Message.PREAMBLE
        may_call = is_preamble or self._form.preamble == self._form.content_begin
        triggers = self._triggers if may_call else ()
        if any(written.startswith(each) for each in triggers):
            self._begin_call(self._form.first_call, events)
            self._read_call(written, (), events)
            return
        following = (*triggers, "" if is_preamble else self._form.content_last)
        if written.strip() and not any(each.startswith(written) for each in following):
            raise EnforcementFailed(
                "The model wrote text after its content. Send the request again."
            )

    def _split(self, found: tuple[int, str], events: list[Event]) -> str:
        """Send the text before `found` without its trailing white space; the text after it."""
        at, end = found
        text, logprobs = self._free.take()
        if before := self._without_end(text[:at]).rstrip():
            self._send(before, logprobs, events)
        return text[at + len(end) :]

    def _without_end(self, text: str) -> str:
        """The content `text` without the text that ends it."""
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

    # --- calls ---

    def _begin_call(self, parts: tuple[Any, ...], events: list[Event]) -> None:
        self._phase = _Phase.CALL
        self._call_began = self._tokens_before
        self._reader = CallReader(self._form, parts, self._schemas, self._calls)

    def _read_call(
        self, text: str, logprobs: tuple[TokenLogprob, ...], events: list[Event]
    ) -> None:
        reader = self._reader
        assert reader is not None
        events += reader.feed(text, logprobs)
        if reader.finished:
            self._calls += 1
            self.call_tokens += (self._tokens - self._call_began,)
            self._phase, self._between = _Phase.AFTER_CALL, ""
            self._has_mark = False
            if reader.rest:
                self._after_call(reader.rest, events)

    def _after_call(self, text: str, events: list[Event]) -> None:
        """Another call, the text that ends the calls, or white space."""
        self._between += text
        begin, end, between = self._form.further_begin(), self._form.calls_end, self._between
        if end and between.startswith(end):
            self._between = between.removeprefix(end)
            begin = ""
        elif begin and between.startswith(begin):
            self._begin_call(self._form.further_call, events)
            self._read_call(between, (), events)
            return
        elif begin.startswith(between) or end.startswith(between):
            return
        if self._between.strip() and not (end and self._between.startswith(end)):
            raise EnforcementFailed("The model wrote text after its calls. Send the request again.")

    # --- the end ---

    def finish(
        self, finish_reason: str, stop_reason: int | str | None = None, text: str = ""
    ) -> list[Event]:
        """The last events of a choice that ended with vLLM's `finish_reason`. `text` is the rest of
        an incomplete character. Raises EnforcementFailed if the choice can't end here."""
        if finish_reason not in ("stop", "length"):
            raise EnforcementFailed("The engine ended the response early. Send the request again.")
        if stop_reason is not None and stop_reason == self._failure:
            raise EnforcementFailed(
                "The enforcement of this request failed in the engine. Send the request again."
            )
        events: list[Event] = []
        free = self._phase in (_Phase.REASONING, _Phase.CONTENT)
        if text and free:
            events += self._text(text, None)
        if stop_reason is not None and stop_reason == self._closed:
            if not free:
                return [Finish("length", call="closed")]
            self._release_all(events)  # constrained content that repeated itself
            return [*events, Finish("length")]
        if finish_reason == "length":
            if free:
                self._release_all(events)
                return [*events, Finish("length")]
            return [*events, *self._cut()]
        whole = self._phase in (_Phase.CONTENT, _Phase.AFTER_CONTENT, _Phase.AFTER_CALL)
        whole &= self._message is not Message.PREAMBLE or self._calls > 0
        if not whole or (self._required and not self._calls):
            raise EnforcementFailed(
                "The response ended before it was complete. Send the request again."
            )
        if free:
            self._release_all(events)
        return [*events, Finish("tool_calls" if self._calls else "stop")]

    def _release_all(self, events: list[Event]) -> None:
        text, logprobs = self._free.take()
        if self._messages and self._phase is _Phase.CONTENT and self._message is None:
            return  # the beginning of a message
        text = self._skipped.lstrip() + self._without_begun_mark(self._without_end(text))
        if text or logprobs:
            self._send(text, logprobs, events)

    def _cut(self) -> list[Event]:
        """The events at the end by `max_tokens` inside or after a call."""
        if self._phase is not _Phase.CALL:
            return [Finish("length")]
        assert self._reader is not None
        events, complete = self._reader.cut()
        if self._reader.has_name:
            self._calls += 1
        return [*events, Finish("length", call=None if complete else "cut")]
