"""Operations on stored responses, for their owner: retrieve, delete, cancel, list. Those on
responses of other providers' models stay LiteLLM's."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from toolgate_core.errors import InvalidRequest, ResponseNotFound, RouteClosed, UnsupportedParameter

from ..api.responses.state import Page, listed, retrieved
from ..api.responses.surface import INCLUDES
from ..context import MATCH, RequestContext
from ..litellm_host import auth
from ..litellm_host.routing.router import is_toolgate
from ..request_fields import invalid_value
from ..response_store.record import StoredResponse, is_active
from ..response_store.store import ResponseStore
from ..sealing import OwnerSeal
from ..state import gateway
from .authorization import check_key, owner_of
from .background import NOT_KEPT, Place, follow

PATHS = re.compile(r"(?:(?:/openai)?/v1)?/responses/(?P<id>[^/]+)(?P<rest>/.*)?", re.DOTALL)
OWN_ID = re.compile(r"resp_[0-9a-f]{32}")
OPERATIONS = ("compact", "input_tokens")
"""Names that stand where other paths have an id."""


async def answer(scope: Scope, context: RequestContext) -> ASGIApp | None:
    """Answer a request at one of PATHS, or return None if it is for another provider's response,
    which is LiteLLM's. Raise ToolgateError."""
    found = scope[MATCH]
    wanted, work = found["id"], WORKS.get((scope["method"], found["rest"] or ""))
    is_ours = is_toolgate(None) or OWN_ID.fullmatch(wanted) is not None
    if not is_ours and (wanted in OPERATIONS or work is None):
        return None
    await check_key(scope, context)
    if wanted in OPERATIONS or work is None:
        raise RouteClosed(
            "This operation of the Responses API is not supported. A response can be retrieved, "
            "deleted, cancelled, and continued by 'previous_response_id'."
        )
    seal = await _identify(scope, context)
    responses = gateway().responses
    place = None if responses.shared is None else Place(responses, seal.owner, wanted)
    found = _Work(responses, seal, wanted, _Query(scope), place, context)
    if not is_ours and await found.find() is None:
        return None
    context.call_id = uuid.uuid4().hex
    context.meter.note_tokens(0, 0)
    await context.reserve(gateway().limiter, {}, output=False)
    return await work(found)


MAX_PAGE, PAGE = 100, 20


class _Query:
    """The parameters of a query. Each method raises InvalidRequest for an invalid value."""

    def __init__(self, scope: Scope) -> None:
        self._given = QueryParams(scope["query_string"])

    def include(self) -> list[str]:
        include = [*self._given.getlist("include"), *self._given.getlist("include[]")]
        for name in include:
            if name not in INCLUDES:
                raise invalid_value("include", f"one of {', '.join(INCLUDES)}", name)
        return include

    def page(self) -> Page:
        limit = self.integer("limit", 1, MAX_PAGE) or PAGE
        order = self._given.get("order", "desc")
        if order not in ("asc", "desc"):
            raise invalid_value("order", '"asc" or "desc"', order)
        return Page(limit, order == "asc", self._given.get("after"))

    def flag(self, name: str) -> bool:
        value = self._given.get(name, "false").lower()
        if value not in ("true", "false"):
            raise invalid_value(name, "true or false", value)
        return value == "true"

    def integer(self, name: str, low: int, high: int) -> int | None:
        text = self._given.get(name)
        if text is None:
            return None
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 17 else -1
        if not low <= number <= high:
            raise InvalidRequest(
                f"{name!r} must be an integer between {low} and {high}.", param=name
            )
        return number


async def _identify(scope: Scope, context: RequestContext) -> OwnerSeal:
    """Return the seal of the sender of a request, after our own authentication and after its body
    was read. Raise ToolgateError if another authentication refuses it."""
    if not context.caller.authenticated:
        request = Request(scope)
        request._body = b""  # so that another authentication does not wait for it
        await auth.litellm_caller(request, {})
    return OwnerSeal(gateway().sealer, owner_of(context))


def _json(content: object) -> Response:
    return Response(orjson.dumps(content), media_type="application/json")


@dataclass(frozen=True)
class _Work:
    _responses: ResponseStore
    _seal: OwnerSeal
    _id: str
    _query: _Query
    _place: Place | None
    """Of the response, if it is in the background perhaps."""
    _context: RequestContext

    async def retrieve(self) -> ASGIApp:
        include, streamed = self._query.include(), self._query.flag("stream")
        after = self._query.integer("starting_after", 0, 2**53)
        if after is not None and not streamed:
            raise InvalidRequest(
                "'starting_after' requires a stream. Set 'stream' to true.", param="starting_after"
            )
        response = await self._find()
        if not streamed:
            return _json(retrieved(response, include, self._seal))
        if self._place is None or not response.body.get("background"):
            raise InvalidRequest(
                "Only responses that were created with `background: true` can be retrieved as a "
                "stream. Remove 'stream'.",
                param="stream",
            )
        if not await self._place.has_events():
            raise NOT_KEPT
        return follow(self._place, -1 if after is None else after, self._context)

    async def delete(self) -> ASGIApp:
        if is_active(await self._find()):
            raise InvalidRequest(
                "This response is in flight. Delete it when it has ended, or cancel it before."
            )
        if not await self._responses.delete(self._seal.owner, self._id):
            raise self._missing(self._id)
        return _json({"id": self._id, "object": "response", "deleted": True})

    async def input_items(self) -> ASGIApp:
        self._query.include()
        page, last, earlier = self._query.page(), await self._find(whole=True), list[Any]()
        if last.previous is not None:
            conversation = await self._responses.conversation(self._seal.owner, last.previous)
            if conversation.missing is not None:
                raise self._missing(conversation.missing)
            earlier = conversation.items
        return _json(listed([*earlier, *last.input], page))

    async def cancel(self) -> ASGIApp:
        response: StoredResponse | None = await self._find()
        assert response is not None
        if not response.body.get("background"):
            raise UnsupportedParameter(
                "Only responses that were created with `background: true` can be cancelled. Close "
                "the connection of another request to cancel it."
            )
        if self._place is not None and is_active(response):
            response = await self._place.cancel()
        if response is None:
            raise self._missing(self._id)
        return _json(response.body)

    async def find(self, *, whole: bool = False) -> StoredResponse | None:
        """Return the response, or None if it is not one of ours."""
        response = await self._responses.find(self._seal.owner, self._id)
        if response is None and self._place is not None:
            response = await self._place.find(whole=whole)
        return response

    async def _find(self, *, whole: bool = False) -> StoredResponse:
        if (response := await self.find(whole=whole)) is None:
            raise self._missing(self._id)
        return response

    def _missing(self, response_id: str) -> ResponseNotFound:
        what = f"Response with id {response_id!a} not found."
        if response_id != self._id:
            what = f"{response_id!a}, which {self._id!a} continues, is not stored any more."
        return ResponseNotFound(
            f"{what} A response is stored when it has ended, unless it was created with "
            "`store: false`."
        )


WORKS: dict[tuple[str, str], Callable[[_Work], Awaitable[ASGIApp]]] = {
    ("GET", ""): _Work.retrieve,
    ("DELETE", ""): _Work.delete,
    ("GET", "/input_items"): _Work.input_items,
    ("POST", "/cancel"): _Work.cancel,
}
"""By method and end of the path."""
