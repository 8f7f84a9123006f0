"""What a feature adds to chat completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from toolgate_core.deltas import CallStart

from ...chat.choice import ChoiceEvent
from ...features.feature import Feature, FeatureOutput
from ...request_fields import Fields

Message = dict[str, Any]


@dataclass(frozen=True)
class CallForm:
    """How a call is written."""

    type: str
    text: str
    """The member with its text."""


class ChatOutput(FeatureOutput):
    """What one feature adds to one chat completion."""

    def form(self, start: CallStart) -> CallForm | None:
        """Return the form of a call; None for the usual one."""
        return None

    def take(self, event: ChoiceEvent) -> bool:
        """Return whether the client does not get the event."""
        return False

    def at_start(self) -> Message:
        """Return objects that are members of the first delta of a stream, and of a message."""
        return {}

    def at_end(self) -> Message:
        """Return the same for the last delta. Those of a message have the members of both."""
        return {}


class ChatFeature(Feature[ChatOutput]):
    ITEMS: ClassVar[tuple[str, ...]] = ()
    """Members of messages."""

    @classmethod
    def prepared(cls, body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
        """Return a body in which the prompt has at most `listed` tools, if the feature finds the
        others."""
        return body

    def called(self, call: Fields) -> Mapping[str, Any] | None:
        """Return the function, with its arguments, of a call in the conversation whose type is one
        of the feature's. Raise InvalidRequest."""
        return None

    def turns(self, message: Message) -> Iterable[Message]:
        """Return the messages that the prompt has in place of one of the feature's members of a
        message. Without any, the member stays."""
        return ()

    def before(self, message: Message) -> Sequence[Message]:
        """Return the messages that the prompt has before one."""
        return ()

    def at_end(self) -> Sequence[Message]:
        """Return the messages that the prompt has after all others."""
        return ()
