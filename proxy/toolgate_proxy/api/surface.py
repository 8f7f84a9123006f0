"""The interface of an API surface: one public API over the chat engine.

A surface matches its paths, and reads an HTTP body as a ChatRequest and a Writer, which makes the
bytes of the response of events. It depends on neither the backends nor LiteLLM. `surfaces.py` lists
all surfaces. Code that several surfaces need is in `shared/`: surfaces do not import each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar

from toolgate_core.errors import ToolgateError
from toolgate_core.tools import OnInvalid, refuse

from ..chat.response import ChatResponse, ResponseEvent
from ..context import Form
from ..kept_values import KeptValues
from ..limits.reservation import RateLimitHeaders
from ..request.chat_request import ChatRequest, HistoryChange
from ..response_store.record import StoredResponse
from ..response_store.store import ResponseStore
from ..sealing import OwnerSeal

Salt = Callable[[str | None], str | None]
"""Returns the salt of a request in the backend's prefix cache. Its argument is the client's own."""


class Background(Protocol):
    """A response that is generated in the background."""

    turn: StoredResponse | None
    """As it was queued."""

    async def queue(self, owner: str, turn: StoredResponse) -> None:
        """Store it before it is generated. Raise ToolgateError."""


class Provision:
    """Something of the operator's that a feature uses for the tools of a request."""

    is_long: ClassVar[bool] = False
    """Whether reading a request with it takes long."""


P = TypeVar("P", bound=Provision)


@dataclass(frozen=True)
class Client:
    """The sender of a request, as far as a surface needs it."""

    headers: Mapping[str, str] = field(default_factory=dict)
    """The request's headers that select features of an API, by lower-case name."""
    seal: OwnerSeal | None = None
    """Seals data that the client keeps and sends back."""
    responses: ResponseStore | None = None
    """Stores responses for the owner of the seal."""
    provided: Mapping[type[Provision], Provision] = field(default_factory=dict)
    """What the operator provides for this request."""
    values: KeptValues | None = None
    """Keeps values for the owner of the seal."""
    background: Background | None = None
    """The response, if it is generated in the background."""

    @property
    def owner(self) -> str:
        """Who may use the data that a request creates. Empty without a seal."""
        return "" if self.seal is None else self.seal.owner

    @property
    def queued(self) -> int | None:
        """When the response was queued, in seconds since 1970, if it is generated in the
        background."""
        turn = None if self.background is None else self.background.turn
        return None if turn is None else turn.created

    @property
    def is_long(self) -> bool:
        """Whether reading the request takes long."""
        return any(each.is_long for each in self.provided.values())

    def find(self, kind: type[P]) -> P | None:
        """Return what the operator provides of a kind."""
        found = self.provided.get(kind)
        return found if isinstance(found, kind) else None

    def given(self, kind: type[P], provision: P) -> Client:
        """Return the sender with something that the operator provides."""
        return replace(self, provided={**self.provided, kind: provision})


ANY_CLIENT = Client()


@dataclass(frozen=True)
class Reading:
    """How a body is read as a request."""

    model: str
    """The backend's name of the model."""
    open_objects: bool = False
    omit_hosted: bool = True
    """Whether hosted tools are left out instead of refused."""
    on_invalid: OnInvalid = refuse
    """Gets the errors of tools with an invalid name or schema."""
    client: Client = ANY_CLIENT
    """The sender, whose seal opens what the gateway sealed for it."""
    recalled: int = 0
    """The number that `Surface.recall` returned."""
    salt: Salt = lambda own: own
    """Makes the request's `cache_salt`."""


@dataclass(frozen=True)
class Counting:
    """An operation of an API that counts the tokens of a prompt."""

    path: re.Pattern[str]
    prepared: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Returns the body as a request for a response. It is read as such."""
    body: Callable[[int, int | None], dict[str, Any]]
    """Returns the body of the response, given the number of tokens and of those that context edits
    removed, if the request has edits."""


class ApiResponse:
    """A response in the form of its API. What is streamed and the whole object are made of the same
    events, so they have the same content."""

    logged = False
    """Whether the object is needed of a response that is streamed."""

    def shown(self, events: Iterable[ResponseEvent]) -> Iterator[dict[str, Any]]:
        """Take events. Yield those of the API's stream."""
        raise NotImplementedError

    def add(self, events: Iterable[ResponseEvent]) -> None:
        """Take events of a response that is not streamed."""
        for _ in self.shown(events):
            pass

    def events(self, events: Iterable[ResponseEvent]) -> bytes:
        """Take events. Return the bytes to send for them, which may be none."""
        raise NotImplementedError

    async def keep(self) -> None:
        """Store the response if the API stores responses. Called after the last event, before `end`
        or `body`."""
        return  # most APIs store nothing

    def end(self) -> bytes:
        """Return the bytes to send after the last event."""
        raise NotImplementedError

    def failed(self, error: Mapping[str, Any]) -> bytes:
        """Return the bytes to send instead of further events. `error` is the object that the
        surface returns for the error, without the object around it."""
        raise NotImplementedError

    def body(self) -> dict[str, Any]:
        """Return the object with the events so far."""
        raise NotImplementedError


@dataclass
class Writer:
    """Writes the responses to one request, and its errors, in the form of its API. Each API has a
    subclass, with what only these need of the request."""

    request: ChatRequest
    """As it was sent to the engine: errors name its places."""
    omitted_tools: tuple[str, ...] = field(default=(), kw_only=True)
    """The types of hosted tools in the request, which the model is not offered."""
    history_changes: tuple[HistoryChange, ...] = field(default=(), kw_only=True)
    """What the model sees in another form than it was sent."""

    async def accepted(self, model: str, client: Client) -> None:
        """Store the response if it is generated in the background. Called when the request is
        valid, before a backend gets it. `model` is the name that the client sent.

        Raise ToolgateError."""

    def response(
        self, answer: ChatResponse, model: str, client: Client = ANY_CLIENT
    ) -> ApiResponse:
        """Return the response to send. `model` is the name that the client sent. The response is
        stored for `client`."""
        raise NotImplementedError

    def error(self, error: ToolgateError, request_id: str | None = None) -> dict[str, Any]:
        """Return the body of an error of a later step, which names the places of the request in the
        client's words. `request_id`: the value of `x-request-id`."""
        raise NotImplementedError


class Surface(Form):
    """One API. What most have, or lack, is the default."""

    name: str
    path: re.Pattern[str]
    """Its paths. Its group `model`, if there is one, is the model in the path."""
    call_type: str
    """LiteLLM's name for the operation, for its hooks and log events."""
    parameters: frozenset[str]
    """The names of its parameters."""
    keep_alive: bytes
    """What is sent in a stream while it is silent."""
    rate_limits: RateLimitHeaders = "openai"
    request_id_header: str | None = None
    counting: Counting | None = None

    def owns(self, path: str, headers: Container[str]) -> bool:
        """Return whether errors at this path are in the form of this API. `headers`: the names of
        the request's headers."""
        return self.path.fullmatch(path) is not None

    async def recall(self, body: Mapping[str, Any], client: Client) -> tuple[dict[str, Any], int]:
        """Return the body with the items of the responses that it continues, and their number, if
        the API stores responses.

        Raise PreviousResponseNotFound, ItemNotFound and ResponsesUnavailable."""
        return dict(body), 0

    def runs_in_background(self, body: Mapping[str, Any]) -> bool:
        """Return whether the response is generated without a client that waits for it."""
        return False

    def portable(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a recalled body without the parts that only this gateway can read. Another
        provider gets it. Raise UnsupportedParameter if it could not respond to it."""
        return dict(body)

    def with_defaults(self, body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body with the defaults of a deployment, which are parameters of chat
        completions, where the body does not set them."""
        return {**defaults, **body}

    def with_search(self, body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
        """Return the body with a search for tools instead of those after the first `listed` ones,
        if the API has no form for such a search."""
        return body

    def read(self, body: Mapping[str, Any], reading: Reading) -> tuple[ChatRequest, Writer]:
        """Read a body. Raise InvalidRequest, InvalidTools or UnsupportedParameter, whose `param` is
        the path of the invalid field."""
        raise NotImplementedError


def is_streamed(body: Mapping[str, Any]) -> bool:
    """Return whether the client requested a stream, in all APIs by the same parameter. An invalid
    value counts as False: `read` reports it."""
    return body.get("stream") is True
