"""Operations on responses that are stored or in flight, for their owner: retrieve, delete, cancel,
list. Those on responses of other providers' models stay LiteLLM's."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from toolgate_core.errors import (
    InvalidRequest,
    ResponseNotFound,
    RouteClosed,
    UnsupportedParameter,
)

from ..api.responses.parameters import INCLUDES
from ..api.responses.state.history import unavailable
from ..api.responses.state.retrieval import listed, replayed, retrieved
from ..context import RequestContext
from ..litellm_host import auth as host_auth
from ..litellm_host.context import identity_of
from ..litellm_host.deployments.router import are_all_ours
from ..litellm_host.errors import own_errors
from ..request_fields import invalid_value
from ..response_store.record import StoredResponse
from ..response_store.sealed_store import StoreUnavailable
from ..response_store.store import ResponseStore
from ..sealing import OwnerSeal
from ..state import gateway
from .authorization import check_key
from .client import owner_of
from .live_replay import LiveReplay
from .paths import MATCH

PATHS = re.compile(
    r"(?:(?:/openai)?/v1)?/(?:responses/(?P<id>[^/]+)(?P<rest>/.*)?|conversations(?:/.*)?)",
    re.DOTALL,
)
OWN_ID = re.compile(r"resp_[0-9a-f]{32}")
OPERATIONS = ("compact", "input_tokens")
"""Names that stand where other paths have an id."""

Name = Literal["retrieve", "delete", "input_items", "cancel"]
NAMES: dict[tuple[str, str], Name] = {
    ("GET", ""): "retrieve",
    ("DELETE", ""): "delete",
    ("GET", "/input_items"): "input_items",
    ("POST", "/cancel"): "cancel",
}
MAX_PAGE, PAGE = 100, 20


async def answer(scope: Scope, context: RequestContext) -> ASGIApp | None:
    """Answer a request at one of PATHS, or return None if LiteLLM answers it. Raise
    ToolgateError."""
    operation = operation_of(scope["method"], scope[MATCH])
    if operation is None:
        return None
    await check_key(scope, context)
    if isinstance(operation, RouteClosed):
        raise operation
    if not context.authenticated:
        request = Request(scope)
        request._body = b""  # so that another authentication does not wait for it
        with own_errors():
            caller = await host_auth.litellm_caller(request, {})
        context.identity = identity_of(caller)
    context.call_id = uuid.uuid4().hex
    context.note_tokens(0, 0)
    await gateway().limiter.reserve(context, {}, output=False)
    seal = OwnerSeal(gateway().sealer, owner_of(scope, context))
    query = QueryParams(scope["query_string"])
    work = _Work(gateway().responses, seal, operation.response_id, query, context)
    try:
        return await work.of(operation.name)
    except StoreUnavailable as error:
        raise unavailable(error) from error


@dataclass(frozen=True)
class Operation:
    """An operation on a stored response."""

    name: Name
    response_id: str


def operation_of(method: str, found: re.Match[str]) -> Operation | RouteClosed | None:
    """Return the operation, or the error for one that our models do not have. Return None for other
    providers' responses. `found`: the match of PATHS."""
    wanted = found["id"]
    if not are_all_ours() and (wanted is None or OWN_ID.fullmatch(wanted) is None):
        return None
    if wanted is None:
        return RouteClosed(
            "Conversations are not supported. Continue a response by `previous_response_id`."
        )
    name = NAMES.get((method, found["rest"] or ""))
    if wanted in OPERATIONS or name is None:
        return RouteClosed(
            "This operation of the Responses API is not supported. A response can be retrieved, "
            "deleted, and continued by `previous_response_id`."
        )
    return Operation(name, wanted)


class _Work:
    def __init__(
        self,
        responses: ResponseStore,
        seal: OwnerSeal,
        response_id: str,
        query: QueryParams,
        context: RequestContext,
    ) -> None:
        self._responses = responses
        self._seal = seal
        self._id = response_id
        self._query = query
        self._context = context
        self._live = responses.live.find(seal.owner, response_id)
        """The response, if it is in flight in this process."""

    async def of(self, name: Name) -> ASGIApp:
        works: dict[Name, Callable[[], Awaitable[ASGIApp]]] = {
            "retrieve": self._retrieve,
            "delete": self._delete,
            "input_items": self._input_items,
            "cancel": self._cancel,
        }
        return await works[name]()

    async def _retrieve(self) -> ASGIApp:
        include, streamed = self._include(), self._flag("stream")
        after = self._integer("starting_after", 0, 2**53)
        if after is not None and not streamed:
            raise InvalidRequest(
                "'starting_after' requires a stream. Set 'stream' to true.", param="starting_after"
            )
        if not streamed:
            return _json(retrieved(await self._find(), include, self._seal))
        after = -1 if after is None else after
        if self._live is not None and self._live.log is not None:
            keepalive = gateway().settings.keepalive_seconds
            return LiveReplay(self._live, after, self._context, keepalive)
        response, log = await self._find(), None
        if self._live is None:
            log = await self._responses.events(self._seal.owner, self._id)
        if log is None:
            raise InvalidRequest(
                "This response can't be retrieved as a stream: it was not created with "
                "`stream: true`, or its events were too large to store.",
                param="stream",
            )
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        content = replayed(response, log, after)
        return Response(content, 200, headers, "text/event-stream; charset=utf-8")

    async def _delete(self) -> ASGIApp:
        if self._live is not None:
            raise InvalidRequest(
                "This response is in flight. Delete it when it has ended, or close the connection "
                "of its request to cancel it."
            )
        if not await self._responses.delete(self._seal.owner, self._id):
            raise self._missing(self._id)
        return _json({"id": self._id, "object": "response", "deleted": True})

    async def _input_items(self) -> ASGIApp:
        self._include()
        limit = self._integer("limit", 1, MAX_PAGE) or PAGE
        order = self._query.get("order", "desc")
        if order not in ("asc", "desc"):
            raise invalid_value("order", '"asc" or "desc"', order)
        *earlier, own = await self._turns()
        items = [item for turn in earlier for item in turn.items] + list(own.input)
        return _json(listed(items, limit=limit, order=order, after=self._query.get("after")))

    async def _cancel(self) -> ASGIApp:
        await self._find()
        raise UnsupportedParameter(
            "Only responses that were created with `background: true` can be cancelled, and this "
            "gateway has none. Close the connection of a request to cancel it."
        )

    async def _turns(self) -> list[StoredResponse]:
        """Return the response after those that it continues."""
        live = self._live.turn() if self._live is not None else None
        first = self._id if live is None else live.previous
        turns: list[StoredResponse] = []
        if first is not None:
            conversation = await self._responses.conversation(self._seal.owner, first)
            if conversation.missing is not None:
                raise self._missing(conversation.missing)
            turns += conversation.turns
        return turns if live is None else [*turns, live]

    async def _find(self) -> StoredResponse:
        if self._live is not None:
            return self._live.turn()
        found = await self._responses.find(self._seal.owner, self._id)
        if found is None:
            raise self._missing(self._id)
        return found

    def _missing(self, response_id: str) -> ResponseNotFound:
        what = f"Response with id {response_id!a} not found."
        if response_id != self._id:
            what = f"{response_id!a}, which {self._id!a} continues, is not stored any more."
        return ResponseNotFound(
            f"{what} A response is stored when it has ended, unless it was created with "
            "`store: false`. Until then, a streamed response can be retrieved from the gateway "
            "process that generates it."
        )

    def _include(self) -> list[str]:
        include = [*self._query.getlist("include"), *self._query.getlist("include[]")]
        for name in include:
            if name not in INCLUDES:
                raise invalid_value("include", f"one of {', '.join(INCLUDES)}", name)
        return include

    def _flag(self, name: str) -> bool:
        value = self._query.get(name, "false").lower()
        if value not in ("true", "false"):
            raise invalid_value(name, "true or false", value)
        return value == "true"

    def _integer(self, name: str, low: int, high: int) -> int | None:
        given = self._query.get(name)
        if given is None:
            return None
        number = int(given) if given.isascii() and given.isdigit() and len(given) < 17 else -1
        if not low <= number <= high:
            raise InvalidRequest(
                f"{name!r} must be an integer between {low} and {high}.", param=name
            )
        return number


def _json(content: object) -> Response:
    return Response(orjson.dumps(content), media_type="application/json")
