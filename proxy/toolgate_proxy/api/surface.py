"""The interface of an API surface: one public API over the chat engine.

A surface matches its paths, converts an HTTP body to a ChatRequest, and converts response events to
the bytes of a response. It depends on neither the backends nor LiteLLM. `surfaces.py` lists all
surfaces. Code that several surfaces need is in `shared/`: surfaces do not import each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ToolgateError

from ..chat.response import ChatResponse, ResponseEvent
from ..sealing import OwnerSeal


@dataclass(frozen=True)
class Client:
    """The sender of a request, as far as a surface needs it."""

    headers: Mapping[str, str] = field(default_factory=dict)
    """The request's headers that select features of an API, by lower-case name."""
    seal: OwnerSeal | None = None
    """Seals data that the client keeps and sends back."""


ANY_CLIENT = Client()


class Stream(Protocol):
    """A response that is streamed."""

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        """Return the bytes to send for these events. The result may be empty."""

    def end(self) -> bytes:
        """Return the bytes to send after the last event."""

    def failed(self, error: Mapping[str, Any]) -> bytes:
        """Return the bytes to send instead of further events. `error` is the object that the
        surface returns for the error, without the object around it."""


class Whole(Protocol):
    """A response that is sent as one JSON object."""

    def add(self, events: Iterable[ResponseEvent]) -> None: ...

    def body(self) -> dict[str, Any]: ...


class Surface(Protocol):
    name: str
    call_type: str
    """LiteLLM's name for the operation, for its hooks and log events."""
    parameters: frozenset[str]
    """The names of its parameters."""

    def model_in_path(self, path: str) -> str | None:
        """Return the model in the path, or "" if the body names the model. Return None if the path
        does not belong to this surface."""

    def is_streamed(self, body: Mapping[str, Any]) -> bool:
        """Whether the client requested a stream. An invalid value counts as False: `parse` reports
        it."""

    def with_defaults(self, body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body with the defaults of a deployment, which are parameters of chat
        completions, where the body does not set them."""

    def parse(
        self,
        body: Mapping[str, Any],
        *,
        model: str,
        open_objects: bool = False,
        omit_hosted: bool = True,
        client: Client = ANY_CLIENT,
    ) -> ChatRequest:
        """Convert a body. `model` is the backend's name of the model. `omit_hosted`: leave hosted
        tools out, if the API has any, instead of refusing them.

        Raises InvalidRequest, whose `param` is the path of the field."""

    def stream(self, response: ChatResponse, model: str) -> Stream:
        """`model` is the name that the client sent."""

    def whole(self, response: ChatResponse, model: str) -> Whole: ...

    def error(self, error: ToolgateError, request: ChatRequest | None = None) -> dict[str, Any]:
        """Return the body of an error response. `request` is the request that failed, if it was
        parsed."""

    def error_event(self, body: bytes) -> bytes:
        """Return the event that reports an error in a stream that has no other events. `body` is
        the error's JSON."""


def data_event(data: bytes) -> bytes:
    """A server-sent event with `data` on one line. In JSON, a newline between tokens is a space."""
    return b"data: " + data.replace(b"\n", b" ") + b"\n\n"
