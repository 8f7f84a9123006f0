"""Errors rebuilt from the HTTP responses of a backend."""

from __future__ import annotations

from typing import Any

from .errors import (
    BackendFailed,
    BackendUnavailable,
    BudgetTooSmall,
    ContextLengthExceeded,
    GrammarsRefused,
    InvalidRequest,
    SchemaNotEnforceable,
    SchemaTooComplex,
    ToolgateError,
)

RETRY_SECONDS = 1
"""Retry-After if the backend is at capacity, in seconds."""

OF_KEYS = (401, 403, 429)
"""Statuses of errors about a client's key and its limits. A backend knows neither."""


def from_body(status: int, body: object) -> ToolgateError:
    """Return the error of a response with this HTTP status and JSON body."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return _generic(status, f"The backend returned HTTP {status}: {str(body)[:200]}")
    message = _text(error, "message") or f"The backend returned HTTP {status}."
    param, code = _text(error, "param"), error.get("code")
    if code == GrammarsRefused.code:
        found = error.get("verdicts")
        return GrammarsRefused(
            [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        )
    if code == BudgetTooSmall.code:
        return BudgetTooSmall(message, least=_count(error, "least_max_tokens") or 0, param=param)
    if code == ContextLengthExceeded.code:
        return ContextLengthExceeded(
            message,
            context=_count(error, "context_length"),
            prompt=_count(error, "prompt_tokens"),
            output=_count(error, "max_tokens"),
            param=param,
        )
    for refused in (SchemaNotEnforceable, SchemaTooComplex):
        if code == refused.code:
            return refused(message, pointer=_text(error, "pointer") or "", param=param)
    if code == BackendUnavailable.code:
        return BackendUnavailable(message, param=param, retry_after=RETRY_SECONDS)
    for kind in _tree(ToolgateError):
        if kind.code == code and kind.status not in OF_KEYS:
            return kind(message, param=param)
    return _generic(status, message)


def is_ours(body: object) -> bool:
    """Return whether the JSON body of an error is one of a Toolgate backend."""
    error = body.get("error") if isinstance(body, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return any(kind.code == code for kind in _tree(ToolgateError))


def _text(error: dict[str, Any], name: str) -> str | None:
    value = error.get(name)
    return value if isinstance(value, str) else None


def _count(error: dict[str, Any], name: str) -> int | None:
    value = error.get(name)
    return value if type(value) is int and 0 <= value < 2**31 else None


def _generic(status: int, message: str) -> ToolgateError:
    if status in (401, 403):
        # Others may accept it: their keys are changed one after the other.
        message = "The backend refused the gateway's API key. Set TOOLGATE_BACKEND_KEY."
        return BackendUnavailable(message, retry_after=RETRY_SECONDS)
    if status in (429, 503):
        return BackendUnavailable(message, retry_after=RETRY_SECONDS)
    if 400 <= status < 500:
        return InvalidRequest(message)
    return BackendFailed(message)


def _tree(root: type[ToolgateError]) -> list[type[ToolgateError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in _tree(child))]
