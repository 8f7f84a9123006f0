"""What a feature adds to the Messages API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...features.feature import Feature, FeatureOutput
from ...request_fields import DEFERRED, Fields
from ..shared.history import Content, Turns
from .content import check_fields

Event = dict[str, Any]


@dataclass(frozen=True)
class Use:
    """The form of the block of a call, which shows who runs it."""

    type: str
    prefix: str = ""
    """Beginning of its id."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further members."""


@dataclass
class Block:
    """A block of a message, with the events that announce it. It is sent as a whole."""

    index: int

    def begin(self) -> Iterator[Event]:
        yield self.start(self.body())

    def end(self) -> Iterator[Event]:
        yield {"type": "content_block_stop", "index": self.index}

    def body(self) -> dict[str, Any]:
        raise NotImplementedError

    def start(self, block: dict[str, Any]) -> Event:
        return {"type": "content_block_start", "index": self.index, "content_block": block}

    def delta(self, kind: str, **more: Any) -> Event:
        delta = {"type": kind, **more}
        return {"type": "content_block_delta", "index": self.index, "delta": delta}


CLIENTS, GATEWAYS = Use("tool_use"), Use("server_tool_use", "srv")


def check_entry(entry: Fields, known: Sequence[str]) -> None:
    """Check an entry of `tools`. `known`: its fields. Raise UnsupportedParameter."""
    ignored = ("allowed_callers",) if entry.values.get("allowed_callers") == ["direct"] else ()
    entry.check_known((*known, *ignored))


class MessagesOutput(FeatureOutput):
    """What one feature adds to one message."""

    def use(self, name: str) -> Use | None:
        """Return the form of calls of a tool that the gateway runs; None for the usual one."""
        return None

    def result(self, call_id: str, shown: object) -> dict[str, Any] | None:
        """Return the block of a result; None for results of other features. `call_id`: of the block
        with the call."""
        return None

    def citations(self, text: str) -> Iterable[dict[str, Any]]:
        """Return the citations of a complete text."""
        return ()

    def block(self, event: object, index: int) -> Block | None:
        """Return the block of an event that only a feature knows. `index`: its place."""
        return None

    def stop_reason(self, reason: str) -> str | None:
        """Return the `stop_reason` for an end that only the feature knows."""
        return None

    def members(self) -> Mapping[str, Any]:
        """Return further members of the message, at the end of the response."""
        return {}

    def usage(self) -> Mapping[str, Any]:
        """Return further members of the usage, at the end of the response."""
        return {}


class MessagesFeature(Feature[MessagesOutput]):
    USES: ClassVar[Mapping[str, Sequence[str] | None]] = {}
    """By type of blocks with calls that the gateway or another service ran: the names of the tools;
    None: all names."""

    def function(self, entry: Fields, kind: str) -> dict[str, Any] | None:
        """Return the function for an entry of a tool that the client runs and whose schema the
        feature has; None for other types. Raise InvalidRequest, InvalidTools and
        UnsupportedParameter."""
        return None

    def begin(self, messages: Sequence[object]) -> int:
        """Return the place of the first message that is part of the conversation."""
        return 0

    def read_back(self, block: Fields, kind: str, turns: Turns) -> bool:
        """Read a block of the assistant that is no call or result. Return False for others."""
        return False

    def content(self, block: Fields, kind: str) -> Content:
        """Return what the model sees of a result in the conversation; "" for one that cannot be
        read."""
        return ""


GATEWAY_FIELDS = ("type", "name", "allowed_callers", "cache_control", DEFERRED, "strict")
"""Fields of the entries of all tools that the gateway runs."""


def tool_name(fields: Fields, known: Sequence[str]) -> str:
    """Return the name in an entry of a tool that the gateway runs. `known`: its fields. Raise
    InvalidRequest and UnsupportedParameter."""
    check_fields(fields, known)
    return fields.required_text("name", "the name of the tool")
