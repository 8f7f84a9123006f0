"""Reads calls, and the text between and after them. The text of one call is literals, name, id and
arguments, in the dialect's order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import copy
from typing import Any

from ..deltas import ArgumentsDelta, CallEnd, CallStart, Event, Finish
from ..dialects.arguments.nested import NestedArguments
from ..dialects.arguments.parser import ArgumentsError, ArgumentsParser, JsonArguments
from ..dialects.arguments.tagged import TaggedArguments
from ..dialects.arguments.typed_values import GemmaArguments, PythonicArguments
from ..dialects.dialect import (
    ARGUMENTS,
    ID,
    NAME,
    Codec,
    FlatTags,
    GemmaValues,
    Json,
    NestedTags,
    Part,
    Pythonic,
)
from ..dialects.marks import Marks
from ..errors import EnforcementFailed
from ..wire import TokenLogprob
from .turn_form import TurnForm

_NAME = re.compile(r"[A-Za-z0-9_.-]*")


class CallReader:
    """Reads call number `index`. The text after the call is in `rest`."""

    def __init__(
        self,
        form: TurnForm,
        parts: tuple[Part, ...],
        schemas: Mapping[str, Mapping[str, Any]],
        index: int,
    ) -> None:
        assert form.calls is not None
        self._form = form
        self._calls = form.calls
        self._parts = parts
        self._schemas = schemas
        self._index = index
        self._at = 0  # the part that is read
        self._pending = ""
        self._name = ""
        self._id: str | None = None
        self._parser: ArgumentsParser | None = None
        self._written: list[str] = []  # all of the arguments
        self._withheld = ""  # the end of the arguments, which is sent with the end of the call
        self._logprobs: list[TokenLogprob] = []
        self._started = False
        self._held: list[Event] = []  # events of a call whose id is not known yet

    @property
    def finished(self) -> bool:
        return self._at == len(self._parts)

    @property
    def rest(self) -> str:
        return self._pending if self.finished else ""

    def copy(self) -> CallReader:
        twin = copy(self)
        twin._written, twin._logprobs = [*self._written], [*self._logprobs]
        twin._held = [*self._held]
        twin._parser = self._parser.copy() if self._parser is not None else None
        return twin

    def feed(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> list[Event]:
        """Raise EnforcementFailed if the text is not that of a call."""
        self._pending += text
        self._logprobs += logprobs
        events: list[Event] = []
        while not self.finished:
            part = self._parts[self._at]
            if part is ARGUMENTS:
                done = self._read_arguments(events)
            elif part is NAME:
                done = self._read_name(events)
            elif part is ID:
                done = self._read_id(events)
            else:
                assert isinstance(part, str)
                done = self._read_literal(part)
            if not done:
                break
            self._at += 1
        if self.finished:
            self._end(events)
        return events

    def _read_literal(self, literal: str) -> bool:
        if self._pending.startswith(literal):
            self._pending = self._pending[len(literal) :]
            return True
        if not literal.startswith(self._pending):
            raise self._unexpected()
        return False

    def _read_name(self, events: list[Event]) -> bool:
        name = _NAME.match(self._pending)
        assert name is not None
        if name.end() == len(self._pending):
            return False
        self._name, self._pending = name.group(), self._pending[name.end() :]
        if not self._name:
            raise self._unexpected()
        self._start(events)
        return True

    def _read_id(self, events: list[Event]) -> bool:
        following = self._parts[self._at + 1]
        assert isinstance(following, str)
        at = self._pending.find(following[0])
        if at < 0:
            return False
        written, self._pending = self._pending[:at], self._pending[at:]
        ids = self._calls.ids
        form = ids.form if ids else "{id}"
        self._id = form.replace("{id}", written)
        self._start(events)
        return True

    def _start(self, events: list[Event]) -> None:
        """The start of the call, as soon as the name and the id are known. An id after the
        arguments is not waited for if the call is cut."""
        if not self._name or (ID in self._parts and self._id is None):
            return
        identifier = self._id.replace("{name}", self._name) if self._id else None
        self._started = True
        deltas, self._held = self._held, []
        events.append(CallStart(self._index, self._name, self._take_logprobs(deltas), identifier))
        events += deltas

    def _read_arguments(self, events: list[Event]) -> bool:
        if self._parser is None:
            schema = self._schemas.get(self._name, {})
            self._parser = make_parser(self._calls.codec, schema, self._form.marks)
        text, self._pending = self._pending, ""
        try:
            written = self._parser.feed(text)
        except ArgumentsError as error:
            raise EnforcementFailed(
                f"The arguments of a tool call are invalid: {error} Send the request again."
            ) from error
        # The last character is sent with the end of the call, so that a call that is cut does not
        # look complete.
        written = self._withheld + written
        self._withheld = written[-1:]
        self._send(written[:-1], events)
        if self._parser.finished:
            self._pending = self._parser.rest
            return True
        return False

    def _send(self, text: str, events: list[Event]) -> None:
        if not text:
            return
        self._written.append(text)
        target = events if self._started else self._held
        logprobs = self._take_logprobs() if self._started else ()
        target.append(ArgumentsDelta(self._index, text, logprobs))

    def _take_logprobs(self, deltas: list[Event] | None = None) -> tuple[TokenLogprob, ...]:
        if deltas:  # the logprobs so far belong to the arguments, which follow
            return ()
        taken, self._logprobs = tuple(self._logprobs), []
        return taken

    def _end(self, events: list[Event]) -> None:
        if not is_object("".join(self._written) + self._withheld):
            raise EnforcementFailed(
                "The arguments of a tool call are not valid JSON. Send the request again."
            )
        self._send(self._withheld, events)
        self._withheld = ""
        events.append(CallEnd(self._index, self._take_logprobs()))

    def cut(self) -> tuple[list[Event], bool]:
        """The last events of a call that the end of the response cuts, and whether its arguments
        are complete nevertheless."""
        events: list[Event] = []
        if not self._started and self._parser is not None:  # without the id that would follow
            self._started = True
            events.append(CallStart(self._index, self._name))
            events += self._held
        if self._parser is None:
            return events, False
        rest = self._withheld + self._parser.cut()
        self._withheld = ""
        self._send(rest, events)
        complete = self._parser.finished and is_object("".join(self._written))
        if complete:
            events.append(CallEnd(self._index))
        return events, complete

    def _unexpected(self) -> EnforcementFailed:
        return EnforcementFailed(
            "The model wrote a tool call in an unexpected form. Send the request again."
        )


def is_object(text: str) -> bool:
    """Integers are not converted: Python refuses those of more than 4,300 digits."""
    try:
        return isinstance(json.loads(text, parse_int=str), dict)
    except (ValueError, RecursionError):
        return False


def make_parser(codec: Codec, parameters: Mapping[str, Any], marks: Marks) -> ArgumentsParser:
    """Return a parser for one call. `parameters` is the tool's canonical JSON Schema."""
    match codec:
        case Json():
            return JsonArguments()
        case FlatTags():
            return TaggedArguments(codec, parameters, marks)
        case NestedTags():
            return NestedArguments(codec, parameters, marks)
        case Pythonic():
            return PythonicArguments(codec, marks)
        case GemmaValues():
            return GemmaArguments(codec, marks)


class CallSequence:
    """`schemas` are the parameters of the tools, by name."""

    def __init__(self, form: TurnForm, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self._form = form
        self._schemas = schemas
        self._reader: CallReader | None = None
        self._after = ""  # text after a call
        self.in_call = False
        """Whether a call has begun and is not complete."""
        self.complete = 0
        """Number of complete calls."""

    def copy(self) -> CallSequence:
        """Return an independent copy with the same state."""
        twin = copy(self)
        twin._reader = self._reader.copy() if self._reader is not None else None
        return twin

    def begin(self, text: str, logprobs: tuple[TokenLogprob, ...], events: list[Event]) -> None:
        """Read the text with which the first call begins."""
        self._begin(self._form.first_call)
        self._read(text, logprobs, events)

    def feed(self, text: str, logprobs: tuple[TokenLogprob, ...], events: list[Event]) -> None:
        """Read the text that follows."""
        if self.in_call:
            self._read(text, logprobs, events)
        else:
            self._follow(text, events)

    def cut(self, *, repeats: bool = False) -> list[Event]:
        """Return the events at the end by `max_tokens`, or by a call that `repeats` itself."""
        if not self.in_call:
            return [Finish("length", repeats=repeats)]
        assert self._reader is not None
        events, complete = self._reader.cut()
        return [*events, Finish("length", call=None if complete else "cut", repeats=repeats)]

    def _begin(self, parts: tuple[Part, ...]) -> None:
        self.in_call = True
        self._reader = CallReader(self._form, parts, self._schemas, self.complete)

    def _read(self, text: str, logprobs: tuple[TokenLogprob, ...], events: list[Event]) -> None:
        reader = self._reader
        assert reader is not None
        events += reader.feed(text, logprobs)
        if reader.finished:
            self.complete += 1
            self.in_call, self._after = False, ""
            if reader.rest:
                self._follow(reader.rest, events)

    def _follow(self, text: str, events: list[Event]) -> None:
        """Read another call, the text that ends the calls, or white space."""
        self._after += text
        begin, end, after = self._form.further_begin(), self._form.calls_end, self._after
        if end and after.startswith(end):
            self._after = after.removeprefix(end)
        elif begin and after.startswith(begin):
            self._begin(self._form.further_call)
            self._read(after, (), events)
            return
        elif begin.startswith(after) or end.startswith(after):
            return
        if self._after.strip() and not (end and self._after.startswith(end)):
            raise EnforcementFailed("The model wrote text after its calls. Send the request again.")
