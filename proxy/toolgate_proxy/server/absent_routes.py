"""Routes that the gateway does not have, and what to do instead."""

from __future__ import annotations

import re
from typing import NoReturn
from urllib.parse import parse_qs

import orjson
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from toolgate_core.errors import RouteClosed, RouteNotFound, ToolgateError, UpgradeRefused

from ..context import RequestContext, route_path
from ..litellm_host.litellm_route.refused import PASS_THROUGH_NAMES, named_providers, passed_through
from ..litellm_host.proxy_server import has_database
from .authorization import authorize, check_key

BATCHES = re.compile(r"/v1/messages/batches(?:/.*)?", re.DOTALL)
"""Neither our models nor LiteLLM's route for other models have batches of messages."""
DATABASE = re.compile(
    r"(?:/v2)?/(?:budget|customer|end_user|global|invitation|key|organization|project|spend|tag"
    r"|team|user)/(?!health$|calculate$|metadata_schema$).*",
    re.DOTALL,
)
"""LiteLLM's routes that need its database, where they end in errors of several kinds without it."""

SOCKET = re.compile(r"(?:/openai)?(?:/v1)?/responses")
"""Paths of OpenAI's WebSocket mode."""

SETTINGS = {
    "files": "`files_settings`",
    "batches": "`files_settings`",
    "fine_tuning": "`finetune_settings`",
    "vector_stores": "`vector_store_registry`",
    "assistants": "`assistant_settings`",
    "threads": "`assistant_settings`",
}
"""By kind of route: the section of LiteLLM's configuration that names its provider. For others, it
is `model_list`."""
DEFAULTS = {"skills": "anthropic", "interactions": "gemini"}
"""By kind of route: LiteLLM's default provider. That of others is OpenAI."""
OF_PROVIDER = re.compile(
    r"(?:/(?P<provider>[\w.-]+)/v1|/v1(?:beta)?)?/(?P<kind>assistants|batches"
    r"|containers|evals|files|fine_tuning|interactions|moderations|rag|skills|threads"
    r"|vector_stores|videos)(?:/.*)?",
    re.DOTALL,
)
"""LiteLLM's routes that reach a provider without the name of a model."""
PASSED_THROUGH = re.compile(
    rf"/(?P<provider>{'|'.join(map(re.escape, PASS_THROUGH_NAMES))})/(?!deployments/"
    r"|v1/(?:realtime|responses)|(?:v1/)?models$|chat/completions$).*",
    re.DOTALL,
)
"""LiteLLM's routes that send any request to a provider, except those with a model's name."""
ALIASES = {
    "azure_speech": "azure",
    "eu.assemblyai": "assemblyai",
    "openai_passthrough": "openai",
    "vertex-ai": "vertex_ai",
    "vllm": "hosted_vllm",
}
"""By name in a path: LiteLLM's name of the provider."""
IN_BODY = re.compile(rb'\bcustom_llm_provider"\s*:?\s*"?([\w.-]+)')
"""The provider in a body of JSON or of a form."""


async def batches(scope: Scope, context: RequestContext) -> NoReturn:
    """Refuse a request at BATCHES. Raise ToolgateError."""
    await check_key(scope, context)
    raise RouteClosed(
        "Message batches are not supported. Send each request to POST /v1/messages; limits of the "
        "API key allow several at once."
    )


def is_upgrade(scope: Scope) -> bool:
    """Return whether a request is the handshake of OpenAI's WebSocket mode."""
    return scope["type"] == "websocket" and SOCKET.fullmatch(route_path(scope)) is not None


async def refuse_upgrade(_: Scope, receive: Receive, send: Send) -> None:
    """Answer the handshake of a WebSocket. Clients then use HTTP at once."""
    error = UpgradeRefused("Responses are not served over WebSockets. Send POST /v1/responses.")
    await receive()  # websocket.connect
    headers = [(b"content-type", b"application/json")]
    start = {"type": "websocket.http.response.start", "status": error.status, "headers": headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": orjson.dumps(error.body())})


async def without_database(scope: Scope, context: RequestContext) -> None:
    """Refuse a request at DATABASE, unless LiteLLM has a database. Raise ToolgateError."""
    if has_database():
        return
    await authorize(scope, context)
    raise RouteNotFound(
        "This route needs LiteLLM's database, which this gateway does not have. `toolgate keys` "
        "creates, lists and limits virtual keys, with teams."
    )


def without_provider(scope: Scope, body: bytes = b"") -> ToolgateError | None:
    """Return the error for a route of LiteLLM that would reach a provider which the configuration
    does not name. LiteLLM would take its address and key from defaults and the environment."""
    path = route_path(scope)
    route = OF_PROVIDER.fullmatch(path) or PASSED_THROUGH.fullmatch(path)
    if route is None or passed_through(path):
        return None
    kind = route.groupdict().get("kind") or ""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    asked = [
        route["provider"],
        *query.get("custom_llm_provider", ()),
        *query.get("provider", ()),
        Headers(scope=scope).get("custom-llm-provider"),
        *(each.decode() for each in IN_BODY.findall(body)),
    ]
    wanted = {ALIASES.get(each, each) for each in asked if each}
    missing = (wanted or {DEFAULTS.get(kind, "openai")}) - named_providers()
    if not missing:
        return None
    settings = SETTINGS.get(kind, "`model_list`, with a model of this provider")
    return RouteNotFound(
        f"This route of LiteLLM needs the provider {min(missing)!r}, which the gateway's "
        f"configuration does not name, so nothing was sent. Configure the provider in {settings}, "
        "as LiteLLM's documentation describes. Toolgate models do not have this API."
    )
