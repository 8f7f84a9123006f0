"""Errors rebuilt from the HTTP responses of a backend."""

from __future__ import annotations

from .errors import (
    BackendFailed,
    BackendUnavailable,
    BudgetTooSmall,
    GrammarUnknown,
    InvalidRequest,
    SchemaNotEnforceable,
    SchemaTooComplex,
    ToolgateError,
)

RETRY_SECONDS = 1
"""Retry-After if the backend is at capacity, in seconds."""


def from_body(status: int, body: object) -> ToolgateError:
    """The error of a response with this HTTP status and JSON body."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return _generic(status, f"The backend returned HTTP {status}: {str(body)[:200]}")
    message = str(error.get("message", f"The backend returned HTTP {status}."))
    param = error.get("param")
    code = error.get("code")
    if code == GrammarUnknown.code:
        return GrammarUnknown([str(key) for key in error.get("keys", [])])
    if code == BudgetTooSmall.code:
        return BudgetTooSmall(message, least=int(error.get("least_max_tokens", 0)), param=param)
    for refused in (SchemaNotEnforceable, SchemaTooComplex):
        if code == refused.code:
            return refused(message, pointer=str(error.get("pointer", "")), param=param)
    if code == BackendUnavailable.code:
        return BackendUnavailable(message, param=param, retry_after=RETRY_SECONDS)
    for kind in _tree(ToolgateError):
        if kind.code == code:
            return kind(message, param=param)
    return _generic(status, message)


def _generic(status: int, message: str) -> ToolgateError:
    if status in (401, 403):
        return BackendFailed("The backend refused the gateway's API key. Set TOOLGATE_BACKEND_KEY.")
    if status in (429, 503):
        return BackendUnavailable(message, retry_after=RETRY_SECONDS)
    if 400 <= status < 500:
        return InvalidRequest(message)
    return BackendFailed(message)


def _tree(root: type[ToolgateError]) -> list[type[ToolgateError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in _tree(child))]
