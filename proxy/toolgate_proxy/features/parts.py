"""What the list of features has of each of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from ..api.chat_completions.feature import ChatFeature
from ..api.messages.feature import MessagesFeature
from ..api.responses.feature import ResponsesFeature
from ..api.surface import Provision
from ..context import RequestContext
from ..limits.estimate import FileSize
from ..request.chat_request import ChatRequest
from ..settings import Settings

Read = Callable[[ChatRequest, str, RequestContext], Awaitable[ChatRequest]]
"""Returns a request with other content parts. The text: the team or key that sent it. Raises
ToolgateError."""


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
    later: Mapping[str, Read] = field(default_factory=dict)
    """By type of content parts: what replaces them after a request was read."""
    sizes: Mapping[str, FileSize] = field(default_factory=dict)
    """By type of content parts that are files, in any API: their estimated tokens."""
