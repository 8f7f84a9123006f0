"""Conversion of LiteLLM's error bodies to OpenAI's form.

LiteLLM's `openai_exception_handler` (proxy/proxy_server.py) sends the HTTP status as `code`, and
class names, tracebacks and routing details in the message. Errors of our provider already have the
right form.
"""

from __future__ import annotations

import json
import re
from typing import Any

from litellm.proxy._types import ProxyException
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from toolgate_core.errors import MethodNotAllowed, ModelNotFound, RouteNotFound, ToolgateError
from toolgate_core.errors.base import MAX_MESSAGE, shortened

from ..api.surfaces import Google, surface_of
from ..context import SCOPE, RequestContext
from ..keys.permissions import nearest
from .deployments.known_models import model_not_found
from .deployments.router import PROVIDER
from .errors import CODES, TAGS, HostRefused, cleaned, tag_mismatch
from .operations import unsupported
from .providers import without_credentials

UNSUPPORTED = re.compile(rf"'{PROVIDER}' is not a valid LlmProviders|invalid provider: {PROVIDER}$")
"""Messages of LiteLLM for operations that no custom provider has."""


def repair_error_bodies(app: Any) -> None:
    """Wrap LiteLLM's exception handler."""
    original = app.exception_handlers[ProxyException]

    async def handler(request: Request, error: ProxyException) -> Response:
        response = await original(request, error)
        body = json.loads(response.body)
        status, body["error"] = repaired(response.status_code, body["error"])
        context = request.scope.get(SCOPE)
        if isinstance(context, RequestContext):
            lacking = without_credentials(context.model or "", body["error"]["message"])
            if lacking is not None:
                status, body = lacking.status, lacking.body()
            context.outcome.code = body["error"].get("code")
            if context.outcome.code == ModelNotFound.code and context.caller.authenticated:
                body = (await model_not_found(context.model or "", context.caller.key)).body()
        if (google := Google()).owns(request.url.path, ()):
            body = google.error(HostRefused(body["error"]["message"], status))
        headers = {
            name: value
            for name, value in response.headers.items()
            if name not in ("content-length", "content-type")
        }
        return JSONResponse(body, status, headers)

    app.exception_handlers[ProxyException] = handler
    app.exception_handlers[HTTPException] = _with_missing_routes(
        app.exception_handlers[HTTPException]
    )


def _with_missing_routes(original: Any) -> Any:
    """Return a handler for the errors of the router: a path or a method that it does not have."""

    async def handler(request: Request, error: HTTPException) -> Response:
        missing = missing_route(request.url.path, error)
        if missing is None:
            response: Response = await original(request, error)
            return response
        context = request.scope.get(SCOPE)
        request_id = None
        if isinstance(context, RequestContext):
            context.outcome.code, request_id = missing.code, context.request_id
        surface = surface_of(request.url.path, request.headers)
        body = surface.error(missing, request_id) if surface else missing.body()
        return JSONResponse(body, missing.status, error.headers)

    return handler


def missing_route(path: str, error: HTTPException) -> ToolgateError | None:
    """Return the error for a route that does not exist; None for an error of a route."""
    if (error.status_code, error.detail) == (405, "Method Not Allowed"):
        allowed = (error.headers or {}).get("Allow") or "another method"
        return MethodNotAllowed(f"This route does not have the method. Use {allowed}.")
    if (error.status_code, error.detail) != (404, "Not Found"):
        return None
    near = nearest(path)
    hint = f"Did you mean {near}?" if near else "Check the path and the base URL of the client."
    return RouteNotFound(f"There is no such route. {hint}")


def repaired(status: int, error: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the status and the error object as OpenAI's API returns them."""
    if not str(error.get("code")).isdigit():
        return status, error
    message = shortened(cleaned(str(error.get("message"))), MAX_MESSAGE)
    kind, code = error.get("type"), CODES.get(status, "server_error")
    if UNSUPPORTED.search(message):
        refusal = unsupported("this operation")
        return refusal.status, refusal.body()["error"]
    if TAGS in message:
        mismatch = tag_mismatch()
        return mismatch.status, mismatch.body()["error"]
    if kind == "no_db_connection":
        # LiteLLM looks up all keys but the master key in its database; there is no database.
        status, kind, code = 401, "authentication_error", "invalid_api_key"
        message = "Incorrect API key provided."
    elif message.startswith("Invalid model name passed"):
        status, code = 404, "model_not_found"
    elif status == 401:
        kind = "authentication_error"
    param = error.get("param")
    param = None if param == "None" else param
    return status, {"message": message, "type": kind, "param": param, "code": code}
