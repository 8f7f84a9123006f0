"""The calls of a turn, one after the other, and the text between and after them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from ..deltas import Event, Finish
from ..dialects.dialect import Part
from ..errors import EnforcementFailed
from ..wire import TokenLogprob
from .call_reader import CallReader
from .turn_form import TurnForm


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
        """An independent copy with the same state."""
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

    def cut(self) -> list[Event]:
        """The events at the end by `max_tokens`."""
        if not self.in_call:
            return [Finish("length")]
        assert self._reader is not None
        events, complete = self._reader.cut()
        return [*events, Finish("length", call=None if complete else "cut")]

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
