"""Stop strings: they act on content, never inside reasoning or a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

from .deltas import ContentDelta, Event, Finish


class StopStrings:
    """A filter behind one choice's segmenter. `hit` is the stop string that ended the choice;
    `include` makes it part of the content."""

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._include = include
        self._held = ""
        self.hit: str | None = None

    def copy(self) -> StopStrings:
        """Another one in the same state."""
        return copy(self)

    def filter(self, events: Iterable[Event]) -> list[Event]:
        """Passes events on, content cut at the first stop string and followed by Finish("stop")."""
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
        text = self._held + delta.text
        found = [(at + len(s), at, s) for s in self._stops if (at := text.find(s)) >= 0]
        if found:
            end, at, self.hit = min(found)  # the first to be complete, however the text arrives
            shown = text[: end if self._include else at]
            return (ContentDelta(shown, delta.logprobs), Finish("stop", self.hit))
        keep = max(_overlap(text, stop) for stop in self._stops)
        shown, self._held = text[: len(text) - keep], text[len(text) - keep :]
        return (ContentDelta(shown, delta.logprobs),) if shown or delta.logprobs else ()

    def _release(self) -> Iterable[Event]:
        held, self._held = self._held, ""
        return (ContentDelta(held),) if held else ()


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that `stop` begins with."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
