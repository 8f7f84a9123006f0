"""What a feature adds to chat completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ...chat.choice import ChoiceEvent
from ...features.feature import Feature

Message = dict[str, Any]


class Output:
    """One feature in one response."""

    def take(self, event: ChoiceEvent) -> bool:
        """Return whether the client does not get the event."""
        return False

    def at_start(self) -> Message:
        """Return objects that are members of the first delta of a stream, and of a message."""
        return {}

    def at_end(self) -> Message:
        """Return the same for the last delta. Those of a message have the members of both."""
        return {}


class ChatFeature(Feature[Output]):
    ITEMS: ClassVar[tuple[str, ...]] = ()
    """Members of messages."""

    @classmethod
    def prepared(cls, body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
        """Return a body in which the prompt has at most `listed` tools, if the feature finds the
        others."""
        return body

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
