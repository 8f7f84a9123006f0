"""The calls of one choice on their way to the client: each is validated in full when it ends, and a
call that may turn out invalid is held back until then.

A call whose masks enforce its whole schema can't fail; if one does, that is a bug of ours, and the
response ends in an error. A call of a tool with residual keywords may well fail.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from toolgate_core.deltas import ArgumentsDelta, CallEnd, CallStart, Event, Finish
from toolgate_core.errors import EnforcementFailed, ToolSchemaViolation
from toolgate_core.tools import Tool

from ..validation.service import ValidationService
from ..validation.validator import Violation, half_a_pair
from . import metrics

logger = logging.getLogger("toolgate")


@dataclass(frozen=True)
class InvalidCall:
    """A call that violates a keyword that masks do not enforce."""

    tool: str
    violation: Violation


class CallCheck:
    """Validates the calls of one request.

    `residual`: names of the tools with keywords that masks do not enforce; their calls are held
    back until they are known to be valid."""

    def __init__(
        self, tools: Iterable[Tool], residual: Iterable[str], validators: ValidationService
    ) -> None:
        self.residual = frozenset(residual)
        self._tools = {tool.name: tool for tool in tools}
        self._validators = validators

    async def check(self, name: str, arguments: str) -> Violation | None:
        """What is wrong with a residual call, if anything. Raises EnforcementFailed where a call is
        wrong that can't be, ToolSchemaViolation where it holds half of a surrogate pair,
        ArgumentsNotChecked where the check went over its limits."""
        tool, held_back = self._tools[name], name in self.residual
        # Masks can't rule out that a member of an open object comes twice. Where a call can still
        # be sampled again, that is wrong; elsewhere the last one counts.
        violation = await self._validators.check(tool, arguments, unique=held_back)
        if held_back:
            metrics.RESIDUAL_CALLS.labels("invalid" if violation else "valid").inc()
            return violation
        if violation is not None and half_a_pair(arguments):
            raise ToolSchemaViolation(
                f"The model called {name!r} with half of a surrogate pair in the arguments: no "
                "mask rules it out, and strict JSON parsers refuse it. Send the request again."
            )
        if violation is not None:
            metrics.VIOLATIONS.inc()
            logger.error(
                "Toolgate: masks let a violation through: schema %s, keyword %r at %r",
                tool.hash,
                violation.keyword,
                violation.schema_pointer,
            )
            raise EnforcementFailed(
                "A tool call broke its schema although it was enforced: this is a bug of Toolgate. "
                "Send the request again, and report the tool's schema."
            )
        return None


class HeldCalls:
    def __init__(self, check: CallCheck) -> None:
        self._check = check
        self._name = ""
        self._arguments: list[str] = []
        self._held: list[Event] | None = None

    @property
    def doubtful(self) -> bool:
        """Whether any call of this request may turn out wrong."""
        return bool(self._check.residual)

    @property
    def holding(self) -> bool:
        return self._held is not None

    def hold(self) -> None:
        """A call begins; its tool is not known yet."""
        self._held = []

    async def passed(self, events: Iterable[Event]) -> tuple[list[Event], InvalidCall | None]:
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
                    violation = await self._check.check(self._name, "".join(self._arguments))
                    if violation is not None:
                        self._held = None
                        return shown, InvalidCall(self._name, violation)
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
            return event.name not in self._check.residual
        return isinstance(event, CallEnd | Finish)
