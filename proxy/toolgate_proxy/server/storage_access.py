"""Access to stored responses and conversations: who sent a request, and the limits of the key."""

from __future__ import annotations

import uuid

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from toolgate_core.errors import InvalidRequest

from ..api.responses.parameters import INCLUDES
from ..api.responses.state.retrieval import Page
from ..context import RequestContext
from ..litellm_host import auth
from ..litellm_host.context import identity_of
from ..litellm_host.errors import own_errors
from ..request_fields import invalid_value
from ..sealing import OwnerSeal
from ..state import gateway
from .client import owner_of

MAX_PAGE, PAGE = 100, 20


class Query:
    """Each method raises InvalidRequest for an invalid value."""

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
        given = self._given.get(name)
        if given is None:
            return None
        number = int(given) if given.isascii() and given.isdigit() and len(given) < 17 else -1
        if not low <= number <= high:
            raise InvalidRequest(
                f"{name!r} must be an integer between {low} and {high}.", param=name
            )
        return number


async def admit(scope: Scope, context: RequestContext) -> OwnerSeal:
    """Return the seal of the sender of a request, after our own authentication and after its body
    was read. Raise ToolgateError if another authentication or the limits of the key refuse it."""
    if not context.authenticated:
        request = Request(scope)
        request._body = b""  # so that another authentication does not wait for it
        with own_errors():
            caller = await auth.litellm_caller(request, {})
        context.identity = identity_of(caller)
    context.call_id = uuid.uuid4().hex
    context.note_tokens(0, 0)
    await gateway().limiter.reserve(context, {}, output=False)
    return OwnerSeal(gateway().sealer, owner_of(scope, context))


def json_response(content: object) -> Response:
    return Response(orjson.dumps(content), media_type="application/json")
