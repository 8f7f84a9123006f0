"""Responses to requests that are refused before they reach a model."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import Scope

from toolgate_core.errors import RequestTimeout, ToolgateError

from ..api.surface import Surface
from ..api.surfaces import owner_of
from ..context import RequestContext


def form_of(scope: Scope, context: RequestContext) -> Surface | None:
    """The surface in whose form the errors of a request are. Sets the names of its headers."""
    names = {name.decode("latin-1") for name, _ in scope["headers"]}
    surface = owner_of(scope["path"], names)
    if surface is not None:
        context.rate_limits = surface.rate_limits
        context.request_id_header = surface.request_id_header
    return surface


def refuse(
    error: ToolgateError, surface: Surface | None = None, request_id: str | None = None
) -> JSONResponse:
    """The error in the form of an API surface; None: in OpenAI's form."""
    content = surface.error(error, None, request_id) if surface is not None else error.body()
    headers = {"retry-after": str(error.retry_after)} if error.retry_after else {}
    if isinstance(error, RequestTimeout):
        headers["connection"] = "close"  # the rest of the body may never arrive
    return JSONResponse(content, error.status, headers)
