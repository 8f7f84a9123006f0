"""What a feature adds to chat completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from toolgate_core.chat_request import ChatRequest, Written

from ...chat.choice import ChoiceEvent
from ...chat.response import ChatResponse
from ...features.feature import Feature, written_as
from ...request_fields import Fields
from ..shared.tools import Entry

Message = dict[str, Any]


class Output:
    """One feature in one response."""

    def take(self, event: ChoiceEvent) -> bool:
        """Return whether the client does not get the event."""
        return False

    def at_start(self) -> Message:
        """Return members of the first delta of a stream."""
        return {}

    def at_end(self) -> Message:
        """Return members of the last delta of a stream."""
        return {}

    def whole(self) -> Message:
        """Return members of a message."""
        return {}


class ChatFeature(Feature):
    ITEMS: ClassVar[tuple[str, ...]] = ()
    """Members of messages."""

    @classmethod
    def prepared(cls, body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
        """Return a body in which the prompt has at most `listed` tools, if the feature finds the
        others."""
        return body

    @property
    def hidden(self) -> frozenset[str]:
        """The names of tools of whose calls the client sees nothing."""
        return frozenset()

    def take(self, entry: Fields) -> Sequence[Entry] | None:
        """Return the tools that the model is offered for an entry of `tools` of one of the
        feature's types; None if it is not taken. Raise InvalidRequest and UnsupportedParameter."""
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

    def output(self, response: ChatResponse) -> Output | None:
        return None


@dataclass(frozen=True)
class ChatWritten(Written):
    features: tuple[ChatFeature, ...] = ()
    """Those of the request."""
    legacy_functions: bool = False
    """Whether the request has `functions` instead of `tools`. The response then has a
    `function_call`."""
    continuous_usage: bool = False
    """Whether every chunk has the usage so far."""
    call_done: bool = False
    """Whether a stream marks the end of each call."""

    def outputs(self, response: ChatResponse) -> list[Output]:
        made = (feature.output(response) for feature in self.features)
        return [each for each in made if each is not None]


def written_of(request: ChatRequest) -> ChatWritten:
    return written_as(ChatWritten, request)
