"""Stop strings. They end the content, and are ignored in reasoning and calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

from .deltas import ContentDelta, Event, Finish
from .dialects.arguments.text import overlap


class StopStrings:
    """A filter for the segmenter's events of one choice."""

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        """With `include`, the content includes the stop string."""
        self._stops = tuple(stop for stop in stops if stop)
        self._include = include
        self._withheld = ""
        self.hit: str | None = None
        """The stop string that ended the choice."""

    def copy(self) -> StopStrings:
        """A copy with the same state."""
        return copy(self)

    def filter(self, events: Iterable[Event]) -> list[Event]:
        """The events, with content cut at the first stop string and followed by Finish("stop")."""
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
        found = [(at + len(s), at, s) for s in self._stops if (at := text.find(s)) >= 0]
        if found:
            end, at, self.hit = min(found)  # the one completed first, for any split of the text
            shown = text[: end if self._include else at]
            return (ContentDelta(shown, delta.logprobs), Finish("stop", self.hit))
        keep = max(overlap(text, stop) for stop in self._stops)
        shown, self._withheld = text[: len(text) - keep], text[len(text) - keep :]
        return (ContentDelta(shown, delta.logprobs),) if shown or delta.logprobs else ()

    def _release(self) -> Iterable[Event]:
        withheld, self._withheld = self._withheld, ""
        return (ContentDelta(withheld),) if withheld else ()
