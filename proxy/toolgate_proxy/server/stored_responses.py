"""Operations on responses that are stored or in flight, for their owner: retrieve, delete, cancel,
list. Those on responses of other providers' models stay LiteLLM's."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from toolgate_core.errors import (
    InvalidRequest,
    ResponseNotFound,
    RouteClosed,
    UnsupportedParameter,
)

from ..api.responses.state.history import unavailable
from ..api.responses.state.retrieval import listed, log_of, replayed, retrieved
from ..context import RequestContext
from ..litellm_host.deployments.router import are_all_ours
from ..response_store.live import LiveResponse
from ..response_store.record import EventLog, StoredResponse, is_active
from ..response_store.sealed_store import StoreUnavailable
from ..response_store.store import ResponseStore
from ..sealing import OwnerSeal
from ..state import gateway
from .authorization import check_key
from .live_replay import LateEvents, LiveEvents, Replay
from .paths import MATCH
from .storage_access import Query, admit, json_response

PATHS = re.compile(r"(?:(?:/openai)?/v1)?/responses/(?P<id>[^/]+)(?P<rest>/.*)?", re.DOTALL)
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


async def answer(scope: Scope, context: RequestContext) -> ASGIApp | None:
    """Answer a request at one of PATHS, or return None if LiteLLM answers it. Raise
    ToolgateError."""
    operation = operation_of(scope["method"], scope[MATCH])
    if operation is None:
        return None
    await check_key(scope, context)
    if isinstance(operation, RouteClosed):
        raise operation
    seal = await admit(scope, context)
    responses, wanted = gateway().responses, operation.response_id
    live = responses.live.find(seal.owner, wanted)
    work = _Work(responses, seal, wanted, Query(scope), context, live)
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
    if not are_all_ours() and OWN_ID.fullmatch(wanted) is None:
        return None
    name = NAMES.get((method, found["rest"] or ""))
    if wanted in OPERATIONS or name is None:
        return RouteClosed(
            "This operation of the Responses API is not supported. A response can be retrieved, "
            "deleted, cancelled, and continued by `previous_response_id`."
        )
    return Operation(name, wanted)


@dataclass(frozen=True)
class _Work:
    _responses: ResponseStore
    _seal: OwnerSeal
    _id: str
    _query: Query
    _context: RequestContext
    _live: LiveResponse | None
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
        include, streamed = self._query.include(), self._query.flag("stream")
        after = self._query.integer("starting_after", 0, 2**53)
        if after is not None and not streamed:
            raise InvalidRequest(
                "'starting_after' requires a stream. Set 'stream' to true.", param="starting_after"
            )
        if not streamed:
            return json_response(retrieved(await self._find(), include, self._seal))
        after = -1 if after is None else after
        if self._live is not None and self._live.log is not None:
            keepalive = gateway().settings.keepalive_seconds
            return Replay(LiveEvents(self._live, after), self._context, keepalive)
        response = await self._find()
        if is_active(response) and self._live is None:
            keepalive = gateway().settings.keepalive_seconds
            return Replay(LateEvents(self._ended, after), self._context, keepalive)
        log = None if self._live is not None else await self._events(response)
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
        if is_active(await self._find()):
            raise InvalidRequest(
                "This response is in flight. Delete it when it has ended. To end it, cancel a "
                "response of the background, or close the connection of another request."
            )
        if not await self._responses.delete(self._seal.owner, self._id):
            raise self._missing(self._id)
        return json_response({"id": self._id, "object": "response", "deleted": True})

    async def _input_items(self) -> ASGIApp:
        self._query.include()
        page = self._query.page()
        *earlier, own = await self._turns()
        items = [item for turn in earlier for item in turn.items] + list(own.input)
        return json_response(listed(items, page))

    async def _cancel(self) -> ASGIApp:
        response: StoredResponse | None = await self._find()
        assert response is not None
        if not response.body.get("background"):
            raise UnsupportedParameter(
                "Only responses that were created with `background: true` can be cancelled. Close "
                "the connection of another request to cancel it."
            )
        if is_active(response):
            response = await self._responses.background.cancel(self._seal.owner, self._id)
        if response is None:
            raise self._missing(self._id)
        return json_response(response.body)

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
        if found is not None and is_active(found):
            found = await self._responses.background.settled(self._seal.owner, self._id)
        if found is None:
            raise self._missing(self._id)
        return found

    async def _events(self, response: StoredResponse) -> EventLog | None:
        stored = await self._responses.events(self._seal.owner, self._id)
        return stored or log_of(response)

    async def _ended(self) -> tuple[StoredResponse, EventLog | None] | None:
        """The response and its events; None if it has not ended. Raises ResponseNotFound and
        StoreUnavailable."""
        response = await self._find()
        return None if is_active(response) else (response, await self._events(response))

    def _missing(self, response_id: str) -> ResponseNotFound:
        what = f"Response with id {response_id!a} not found."
        if response_id != self._id:
            what = f"{response_id!a}, which {self._id!a} continues, is not stored any more."
        return ResponseNotFound(
            f"{what} A response is stored when it has ended, unless it was created with "
            "`store: false`. Until then, a streamed response can be retrieved from the gateway "
            "process that generates it."
        )
