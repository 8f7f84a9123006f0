"""The calls of one response: their validation before they are sent to the client, and their ids.

Each call is validated when it is complete. A call that can be invalid is held until then. If masks
enforce the whole schema, a call cannot be invalid; a violation is then a bug of Toolgate, and the
response ends with an error. A call of a tool with residual keywords can be invalid. Content with a
format is validated in the same way at its end, and held if the format has residual keywords.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from toolgate_core import wire
from toolgate_core.deltas import ArgumentsDelta, CallEnd, CallStart, ContentDelta, Event, Finish
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.errors import EnforcementFailed, ToolSchemaViolation
from toolgate_core.grammar_key import CONTENT
from toolgate_core.tools import Tool

from ..request.chat_request import ChatRequest
from ..validation.service import ValidationService
from ..validation.validator import Violation, has_lone_surrogate, has_mark
from . import metrics

logger = logging.getLogger("toolgate")


@dataclass(frozen=True)
class InvalidCall:
    """A call, or content with a format, that violates a keyword that masks do not enforce."""

    tool: str
    """The tool's name; CONTENT for the content."""
    violation: Violation
    arguments: str


class CallCheck:
    """Validates the calls of one request, and its content by the tool with the name CONTENT.

    `residual`: names of the tools with keywords that masks do not enforce. Their calls are held
    until they are validated. `owner`: the key of the request."""

    def __init__(
        self,
        tools: Iterable[Tool],
        residual: Iterable[str],
        validators: ValidationService,
        owner: str = "",
    ) -> None:
        self.residual = frozenset(residual)
        self._tools = {tool.name: tool for tool in tools}
        self.has_format = CONTENT in self._tools
        self._validators = validators
        self._owner = owner

    async def check(self, name: str, arguments: str) -> Violation | None:
        """Return the violation of a call or content with residual keywords. Raise EnforcementFailed
        for a violation of any other, ToolSchemaViolation for half of a surrogate pair in it, and
        ArgumentsNotChecked if the validation exceeds its limits."""
        tool, is_residual = self._tools[name], name in self.residual
        # Masks cannot prevent duplicate members in an open object. They are a violation if the call
        # can be sampled again. Otherwise the last member counts.
        violation = await self._validators.check(
            tool, arguments, unique=is_residual, owner=self._owner
        )
        if is_residual:
            metrics.RESIDUAL_CALLS.labels("invalid" if violation else "valid").inc()
        if violation is None or is_residual:
            return violation
        what = f"The model's call of {name!r}" if name else "The model's content"
        if has_lone_surrogate(arguments):
            raise ToolSchemaViolation(
                f"{what} contains half of a surrogate pair. Masks cannot prevent it, and strict "
                "JSON parsers reject it. Send the request again."
            )
        metrics.VIOLATIONS.inc()
        logger.error(
            "A call or content violates its schema although masks enforce all of it: schema %s, "
            "keyword %r. This is a bug of Toolgate.",
            tool.hash,
            violation.keyword,
        )
        raise EnforcementFailed(
            f"{what} violates its schema although masks enforce all of it. This is a bug of "
            "Toolgate. Send the request again, and report the schema."
        )


class HeldCalls:
    """Holds the events of the calls of one choice back until they are validated."""

    def __init__(self, check: CallCheck) -> None:
        self._check = check
        self._name = ""
        self._arguments: list[str] = []
        self._content: list[str] = []
        self._held: list[Event] | None = None
        self.written = 0
        """Length of the arguments of the last call so far, or of the content that is held. Of
        arguments, the segmenter withholds the last character; of content, it is not counted."""

    @property
    def may_be_invalid(self) -> bool:
        """Whether the request has a tool whose calls can be invalid, or such a format."""
        return bool(self._check.residual)

    @property
    def holds_content(self) -> bool:
        """Whether content has begun that can be invalid."""
        return bool(self._content) and CONTENT in self._check.residual

    @property
    def is_holding(self) -> bool:
        return self._held is not None

    def hold(self) -> None:
        """Hold events from here on. A call begins; its tool is unknown yet."""
        self._held, self.written = [], 0

    def resume(self, events: Iterable[Event]) -> None:
        """Continue the invalid call or content after its first `events`."""
        self._held = [*events]
        self._arguments = [each.text for each in self._held if isinstance(each, ArgumentsDelta)]
        self._content = [each.text for each in self._held if isinstance(each, ContentDelta)]
        self.written = sum(map(len, self._arguments or self._content)) - bool(self._content)

    async def release(self, events: Iterable[Event]) -> tuple[list[Event], InvalidCall | None]:
        """Return the events that may be sent to the client. For an invalid call or content, the
        held events and those after it are discarded."""
        released: list[Event] = []
        invalid: InvalidCall | None = None
        for event in events:
            match event:
                case CallStart(_, name):
                    self._name, self._arguments, self.written = name, [], 0
                case ArgumentsDelta(_, text):
                    if has_mark(text):
                        raise EnforcementFailed(
                            "The model wrote a mark inside a call: the masks were not applied. "
                            "Send the request again, and check the log of the backend."
                        )
                    self._arguments.append(text)
                    self.written += len(text)
                case ContentDelta(text) if self._check.has_format:
                    if not self._content and CONTENT in self._check.residual:
                        self._held, self.written = [], -1
                    self._content.append(text)
                    self.written += len(text)
                case Finish("stop", None) if self._check.has_format:  # it was not cut
                    invalid = await self._invalid(CONTENT, self._content)
                case CallEnd():
                    invalid = await self._invalid(self._name, self._arguments)
            if invalid is not None:
                self._held, self._content = None, []
                return released, invalid
            if self._held is None:
                released.append(event)
                continue
            self._held.append(event)
            if self._may_release(event):
                released += self._held
                self._held = None
        return released, None

    async def _invalid(self, name: str, parts: list[str]) -> InvalidCall | None:
        violation = await self._check.check(name, text := "".join(parts))
        return None if violation is None else InvalidCall(name, violation, text)

    def _may_release(self, event: Event) -> bool:
        """Return whether the call or content is valid, was cut off, or is enforced completely by
        masks."""
        if isinstance(event, CallStart):
            return event.name not in self._check.residual
        return isinstance(event, CallEnd | Finish)


class CallIds:
    """Generates the ids of the calls of one response."""

    def __init__(self, info: wire.Info, request: ChatRequest, dialect: Dialect) -> None:
        ids = dialect.calls.ids if dialect.calls else None
        # Those that each turn counts anew do not identify a call in the conversation.
        self._written = ids is not None and ids.kind != "turn"
        self._numbered = info.call_ids == "kimi_k2"
        # As in vLLM (renderers/chat_utils.py), numbering continues through a conversation.
        self._before = sum(len(message.get("tool_calls") or ()) for message in request.messages)

    def id_of(self, start: CallStart) -> str:
        if start.id is not None and self._written:
            return start.id
        if self._numbered:
            return f"functions.{start.name}:{self._before + start.index}"
        return f"call_{secrets.token_hex(12)}"
