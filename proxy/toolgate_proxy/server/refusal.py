"""Responses to requests that are refused before they reach a model."""

from __future__ import annotations

from starlette.responses import JSONResponse

from toolgate_core.errors import RequestTimeout, ToolgateError

from ..api.surface import Surface


def refuse(error: ToolgateError, surface: Surface | None = None) -> JSONResponse:
    """The error in the form of an API surface; None: in OpenAI's form."""
    content = surface.error(error) if surface is not None else error.body()
    headers = {"retry-after": str(error.retry_after)} if error.retry_after else {}
    if isinstance(error, RequestTimeout):
        headers["connection"] = "close"  # the rest of the body may never arrive
    return JSONResponse(content, error.status, headers)
