"""What an API surface is: a shape around the one engine.

A surface says which paths it answers, turns an HTTP body into a ChatRequest, and events into the
bytes of its responses. It knows neither backends nor LiteLLM. `surfaces.py` lists all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from toolgate_core.errors import ToolgateError
from toolgate_core.plan import ChatRequest

from ..chat.response import ChatResponse, ResponseEvent


class Stream(Protocol):
    """A streamed response."""

    def events(self, pieces: Iterable[ResponseEvent]) -> bytes:
        """The bytes of these events, which may be none."""

    def end(self) -> bytes:
        """The bytes after the last event."""


class Whole(Protocol):
    """A response that is sent as one JSON object."""

    def add(self, pieces: Iterable[ResponseEvent]) -> None: ...

    def body(self) -> dict[str, Any]: ...


class Surface(Protocol):
    name: str
    call_type: str
    """LiteLLM's name of the operation, for its hooks and log events."""

    def model_in_path(self, path: str) -> str | None:
        """The model that a path of this surface names, or "" where the body does; None where the
        path is another's."""

    def is_streamed(self, body: Mapping[str, Any]) -> bool:
        """Whether the client asked for a stream; what can't be read is an error of `parse`."""

    def parse(
        self, body: Mapping[str, Any], *, model: str, open_objects: bool = False
    ) -> ChatRequest:
        """`model`: as the backend names it. Raises InvalidRequest naming the field."""

    def stream(self, answer: ChatResponse, model: str) -> Stream:
        """`model`: as the client named it."""

    def whole(self, answer: ChatResponse, model: str) -> Whole: ...

    def error(self, error: ToolgateError) -> dict[str, Any]:
        """The body of a response that is an error."""

    def error_event(self, body: bytes) -> bytes:
        """An error, by its body, in a stream that has begun."""
