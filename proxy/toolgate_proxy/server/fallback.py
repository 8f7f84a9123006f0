"""The response to a request for one of our models by its fallback of another provider, which
LiteLLM's app serves. The pipeline tries further fallbacks, so LiteLLM gets none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import orjson
from starlette.types import Message, Scope

from ..api.shared.parameter import LITELLM
from ..api.surface import Client
from ..context import MATCH, RequestContext, model_in_path
from ..litellm_host.control_fields import is_control
from ..litellm_host.errors import HostRefused
from ..litellm_host.host_side import HostSide
from .body import RequestBody
from .connection import Disconnect, Reply
from .forwarding import Forwarding
from .traffic import noting_events

FALLBACKS = "fallbacks"
NO_FURTHER = {"disable_fallbacks": True}
LITELLMS = frozenset(LITELLM)
"""Parameters that LiteLLM may get from requests for our models."""
REPLACED = (b"content-length", b"content-encoding", b"x-litellm-call-id")
PARSED = "parsed_body"
"""Key in the ASGI scope of the body that LiteLLM has read."""


async def answer(
    litellm: Forwarding,
    host: HostSide,
    client: Client,
    reply: Reply,
    disconnect: Disconnect,
    as_sent: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> None:
    """Answer a request. LiteLLM's hooks get it `as_sent`. Raise ToolgateError if it is refused or
    fails before the response begins."""
    context, fallbacks, surface = host.context, host.fallbacks, host.surface
    sent, _ = await surface.recall(host.body, client)
    values = as_sent(fallbacks.for_litellm(surface.portable(sent)))
    without_effect = {name for name in surface.parameters - LITELLMS if is_control(name)}
    values = {name: value for name, value in values.items() if name not in without_effect}
    scope = scope_of(host.scope, context, fallbacks.model)
    checked = {name: value for name, value in values.items() if name not in LITELLMS}
    await litellm.check(scope, context, checked, fallbacks.sender)
    kept = {name: value for name, value in values.items() if name != FALLBACKS}
    body = RequestBody.of_values({**kept, **NO_FURTHER}, 0)
    status, refusal = 200, b""

    async def send(message: Message) -> None:
        nonlocal status, refusal
        status = message.get("status", status)
        if status >= 400:
            refusal += message.get("body", b"")
            return
        if message["type"] == "http.response.body":
            reply.has_output = True
            if not message.get("more_body", False):
                disconnect.ignore()
        await reply.forward(message)

    await litellm.host(scope, context, body.again(_receive), noting_events(send, context))
    if status >= 400:
        raise HostRefused(_message(refusal), status)


def scope_of(scope: Scope, context: RequestContext, model: str) -> Scope:
    """Return the scope of the request to the other model, with the same id."""
    headers = [each for each in scope["headers"] if each[0] not in REPLACED]
    headers.append((b"x-litellm-call-id", (context.call_id or "").encode()))
    path = str(scope["path"])
    if model_in_path(scope):
        begin, end = scope[MATCH].span("model")
        path = path[:begin] + model + path[end:]
    copied = {name: value for name, value in scope.items() if name != PARSED}
    return {**copied, "headers": headers, "path": path, "raw_path": quote(path).encode()}


async def _receive() -> Message:
    """Wait for ever: if the client disconnects, the request is cancelled."""
    await asyncio.Event().wait()
    raise AssertionError


def _message(refusal: bytes) -> str:
    try:
        return str(orjson.loads(refusal)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "LiteLLM returned an error."
