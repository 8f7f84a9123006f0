"""LiteLLM's ASGI app: the place of our own route among its middleware, its error bodies in OpenAI's
form, and its OpenTelemetry callback.

LiteLLM's `openai_exception_handler` (proxy/proxy_server.py) sends the HTTP status as `code`, and
class names, tracebacks and routing details in the message. LiteLLM's OpenTelemetry callback reads
each result as the response of a model: a search, or the tools of an MCP server, would be a
traceback in the log instead of a span.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import litellm
from litellm.integrations.opentelemetry import OpenTelemetry
from litellm.proxy._types import LiteLLMRoutes, ProxyException
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Scope

from toolgate_core.errors import (
    InvalidKey,
    MethodNotAllowed,
    ModelNotFound,
    RouteNotFound,
    ToolgateError,
)
from toolgate_core.host_probe import optional

from ..api.surfaces import surface_of
from ..context import SCOPE, RequestContext
from ..keys.access import nearest_path
from .auth import model_not_found
from .errors import PROVIDER, HostRefused, own_error
from .litellm_route.limit_hook import hook
from .litellm_route.refused import unsupported, without_credentials
from .routing.selection import SelectionHook, selection

PATH_ONLY = frozenset({"LazyFeatureMiddleware", "PrometheusAuthMiddleware"})
"""Middleware of LiteLLM that acts on paths which are never ours. It matches every request against
some forty prefixes, about 5 % of the gateway's processor time for a whole response."""
AUTHENTICATION = "litellm.proxy.auth."
"""Prefix of the modules with LiteLLM's authentication, which its routes have as a dependency."""


def insert_own_route(app: Any, route: Callable[[ASGIApp], ASGIApp]) -> None:
    """Make `route` the innermost middleware, except for PATH_ONLY, which goes inside it.

    Cross-origin headers, security headers, compression and LiteLLM's count of in-flight requests
    therefore apply to our route. Pages of the origins that LiteLLM allows may send requests to a
    gateway in a private network, too: the key decides.
    """
    for layer in app.user_middleware:
        if layer.cls is CORSMiddleware:
            layer.kwargs["allow_private_network"] = True
    inside = [layer for layer in app.user_middleware if layer.cls.__name__ in PATH_ONLY]
    outside = [layer for layer in app.user_middleware if layer.cls.__name__ not in PATH_ONLY]
    app.user_middleware[:] = [*outside, Middleware(route), *inside]


def add_callbacks() -> None:
    """Add the gateway's own callbacks, which LiteLLM's configuration may have replaced."""
    ours = (hook, SelectionHook(selection()))
    litellm.callbacks += [each for each in ours if each not in litellm.callbacks]


def serves_without_key(app: Any, scope: Scope, path: str) -> bool:
    """Return whether the app has a route for the request that does not check its key, or checks it
    by a method of its own. `path`: without the root path."""
    if path in LiteLLMRoutes.public_routes.value:
        return True
    route = next((each for each in app.routes if each.matches(scope)[0] is Match.FULL), None)
    return route is not None and not checks_key(route)


def checks_key(route: Any) -> bool:
    """Return whether a route has LiteLLM's authentication as a dependency."""
    dependant = optional(route, "dependant")
    return dependant is not None and any(
        str(optional(call, "__module__", "")).startswith(AUTHENTICATION)
        for call in _calls(dependant)
    )


def _calls(dependant: Any) -> Iterator[Any]:
    for dependency in dependant.dependencies:
        yield dependency.call
        yield from _calls(dependency)


UNSUPPORTED = re.compile(rf"'{PROVIDER}' is not a valid LlmProviders|invalid provider: {PROVIDER}$")
"""Messages of LiteLLM for operations that no custom provider has."""


def repair_error_bodies(app: Any) -> None:
    """Wrap LiteLLM's exception handler."""
    original = app.exception_handlers[ProxyException]

    async def handler(request: Request, error: ProxyException) -> Response:
        response = await original(request, error)  # which also ends LiteLLM's span
        fault, context = repaired(error), request.scope.get(SCOPE)
        if isinstance(context, RequestContext):
            fault = without_credentials(context.model or "", fault.message) or fault
            context.outcome.code = fault.code
            if fault.code == ModelNotFound.code and context.caller.authenticated:
                fault = await model_not_found(context.model or "", context.caller.key)
        headers = {
            name: value
            for name, value in response.headers.items()
            if name not in ("content-length", "content-type")
        }
        return JSONResponse(fault.body(), fault.status, headers)

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
    near = nearest_path(path)
    hint = f"Did you mean {near}?" if near else "Check the path and the base URL of the client."
    return RouteNotFound(f"There is no such route. {hint}")


def repaired(exception: ProxyException) -> ToolgateError:
    """Return the error as OpenAI's API returns it."""
    error = own_error(exception)
    if not isinstance(error, HostRefused):
        return error
    if UNSUPPORTED.search(error.message):
        return unsupported("this operation")
    if exception.type == "no_db_connection":
        # LiteLLM looks up all keys but the master key in its database; there is no database.
        return InvalidKey("Incorrect API key provided.")
    if error.message.startswith("Invalid model name passed"):
        return ModelNotFound(error.message, param=error.param)
    return error


EVENTS = ("log_success_event", "async_log_success_event")


def repair_spans() -> None:
    """Give the callback an empty response instead. Spans of such results have all other fields."""
    for name in EVENTS:
        setattr(OpenTelemetry, name, _readable(getattr(OpenTelemetry, name)))


def _readable(log: Any) -> Any:
    def logged(self: Any, kwargs: Any, response_obj: Any, **times: Any) -> Any:
        is_response = optional(response_obj, "get") is not None
        return log(self, kwargs, response_obj if is_response else {}, **times)

    return logged
