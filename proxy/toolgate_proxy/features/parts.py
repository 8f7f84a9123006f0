"""What the list of features has of each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..api.chat_completions.feature import ChatFeature
from ..api.messages.feature import MessagesFeature
from ..api.responses.feature import ResponsesFeature
from ..api.surface import Provision
from ..settings import Settings


@dataclass(frozen=True)
class Parts:
    """A feature by API; None: the API does not have it."""

    chat: type[ChatFeature] | None = None
    responses: type[ResponsesFeature] | None = None
    messages: type[MessagesFeature] | None = None
    setting: str = ""
    """The setting that provides something for it."""
    provided: Callable[[Settings], Provision] | None = None
    """Returns this, if the setting has a value."""
