"""Error responses of the administrator's routes."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from toolgate_core.errors import ToolgateError


def forbidden() -> Response:
    message = "This endpoint requires the master key. Send it as `Authorization: Bearer <key>`."
    return refusal(403, "permission_denied", message, None)


def refusal(status: int, code: str, message: str, param: str | None) -> Response:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return JSONResponse({"error": error}, status)


def refusal_of(error: ToolgateError) -> Response:
    return JSONResponse(error.body(), error.status)
