"""The calls of one choice on their way to the client: each is looked at when it ends, and one that
may turn out wrong is held back until then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolgate_core.deltas import ArgumentsDelta, CallEnd, CallStart, Event, Finish

from ..validation import Violation
from .call_check import LastLook


@dataclass(frozen=True)
class Wrong:
    """A call that breaks what no mask holds."""

    tool: str
    violation: Violation


class Calls:
    def __init__(self, look: LastLook) -> None:
        self._look = look
        self._name = ""
        self._arguments: list[str] = []
        self._held: list[Event] | None = None

    @property
    def doubtful(self) -> bool:
        """Whether any call of this request may turn out wrong."""
        return bool(self._look.residual)

    @property
    def holding(self) -> bool:
        return self._held is not None

    def hold(self) -> None:
        """A call begins; its tool is not known yet."""
        self._held = []

    async def passed(self, events: Iterable[Event]) -> tuple[list[Event], Wrong | None]:
        """The events that may go on to the client. With a wrong call, what was held is gone, and so
        are the events after it."""
        shown: list[Event] = []
        for event in events:
            match event:
                case CallStart(_, name):
                    self._name, self._arguments = name, []
                case ArgumentsDelta(_, text):
                    self._arguments.append(text)
                case CallEnd():
                    violation = await self._look.check(self._name, "".join(self._arguments))
                    if violation is not None:
                        self._held = None
                        return shown, Wrong(self._name, violation)
            if self._held is None:
                shown.append(event)
                continue
            self._held.append(event)
            if self._settled(event):
                shown += self._held
                self._held = None
        return shown, None

    def _settled(self, event: Event) -> bool:
        """What is held back may go: the call is valid or cut, or its masks hold all of it."""
        if isinstance(event, CallStart):
            return event.name not in self._look.residual
        return isinstance(event, CallEnd | Finish)
