"""Access to stored responses and conversations: who sent a request, and the limits of the key."""

from __future__ import annotations

import uuid

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from ..context import RequestContext
from ..litellm_host import auth
from ..litellm_host.context import identity_of
from ..litellm_host.errors import own_errors
from ..sealing import OwnerSeal
from ..state import gateway
from .client import owner_of


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
