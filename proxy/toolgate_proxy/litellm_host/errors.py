"""Our errors as LiteLLM's exceptions, which keep them.

LiteLLM's router and loggers go by the class of an exception: a 429 is a RateLimitError, a 401 an
AuthenticationError. The response's body is our error's own (patches.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import litellm
from litellm.proxy._types import ProxyException

from toolgate_core.errors import ToolgateError

from .deployments.router import PROVIDER

CARRIED = "toolgate_error"
"""Attribute in which LiteLLM's exceptions carry ours."""

CLASSES = {
    401: litellm.AuthenticationError,
    404: litellm.NotFoundError,
    429: litellm.RateLimitError,
    502: litellm.BadGatewayError,
    503: litellm.ServiceUnavailableError,
    504: litellm.Timeout,
}
"""LiteLLM's exceptions by HTTP status; further ones below 500 are BadRequestError, from 500 on
InternalServerError."""


def carried(exception: object) -> ToolgateError | None:
    """Our error that one of LiteLLM's exceptions carries."""
    return getattr(exception, CARRIED, None)


def carry(exception: Any, error: ToolgateError) -> Any:
    """LiteLLM's exception, which answers with our error's body."""
    setattr(exception, CARRIED, error)
    return exception


def host_error(error: ToolgateError, model: str, *, ours: bool = True) -> Exception:
    """LiteLLM's exception for our error, with the same status."""
    # LiteLLM logs an exception that names no provider as the client's fault, without a traceback.
    provider = PROVIDER if ours and error.status >= 500 else None
    default = litellm.InternalServerError if error.status >= 500 else litellm.BadRequestError
    host: Any = CLASSES.get(error.status, default)(
        message=error.message, model=model, llm_provider=provider
    )
    host.message, host.status_code = error.message, error.status
    host.type, host.param = error.type, error.param
    host.headers = {"retry-after": str(error.retry_after)} if error.retry_after else {}
    raised: Exception = carry(host, error)
    return raised


@contextmanager
def errors_raised(model: str) -> Iterator[None]:
    """Raises our errors as LiteLLM's."""
    try:
        yield
    except ToolgateError as error:
        raise host_error(error, model) from error


def proxy_exception(error: ToolgateError) -> ProxyException:
    """Our error as LiteLLM's authentication passes it on: body, status and headers are ours."""
    headers = {"retry-after": str(error.retry_after)} if error.retry_after else {}
    made = ProxyException(error.message, error.type, error.param, error.status, headers=headers)
    return carry(made, error)


class HostRefused(ToolgateError):
    """An error of LiteLLM's own: of its authentication, a callback's hook, or its router."""

    def __init__(
        self, message: str, status: int, *, param: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message, param=param, retry_after=retry_after)
        self.status = status  # type: ignore[misc]  # LiteLLM's, of this one
        self.type = "server_error" if status >= 500 else TYPES.get(status, "invalid_request_error")  # type: ignore[misc]
        self.code = CODES.get(status, "server_error")  # type: ignore[misc]


TYPES = {401: "authentication_error", 403: "permission_error", 429: "requests"}
CODES = {
    400: "invalid_request",
    401: "invalid_api_key",
    403: "permission_denied",
    404: "not_found",
    408: "timeout",
    413: "request_too_large",
    422: "invalid_request",
    429: "rate_limit_exceeded",
    503: "service_unavailable",
    504: "timeout",
}
"""OpenAI's codes, or words in their manner, by HTTP status."""


def own_error(exception: Exception) -> ToolgateError:
    """An exception of LiteLLM's, or of a callback, as ours."""
    if isinstance(exception, ToolgateError):
        return exception
    held = carried(exception)
    if held is not None:
        return held
    given = (str(getattr(exception, name, "")) for name in ("status_code", "code"))
    status = next((int(value) for value in given if value.isdigit()), 500)
    status = status if 400 <= status < 600 else 500
    detail = getattr(exception, "detail", None) or getattr(exception, "message", None)
    if isinstance(detail, dict):
        detail = detail.get("error", detail)
    param = getattr(exception, "param", None)
    return HostRefused(
        cleaned(str(detail or exception)),
        status,
        param=param if isinstance(param, str) and param != "None" else None,
        retry_after=_retry_after(getattr(exception, "headers", None)),
    )


def _retry_after(headers: object) -> int | None:
    """Seconds; dates, which the header may hold as well, are left out."""
    held = dict(headers) if isinstance(headers, Mapping) else {}
    value = next((value for name, value in held.items() if name.lower() == "retry-after"), "")
    return int(value) if str(value).isdigit() else None


def cleaned(message: str) -> str:
    """Without LiteLLM's names of classes, tracebacks and routing."""
    return SUFFIX.sub("", PREFIX.sub("", message))


PREFIX = re.compile(r"^(?:litellm\.\w+: |/[\w/]+: |Invalid request format: )+")
SUFFIX = re.compile(
    r"\n+(?:Traceback \(most recent call last\)|LiteLLM: |This looks like a bug in LiteLLM).*",
    re.DOTALL,
)


@contextmanager
def own_errors() -> Iterator[None]:
    """Raises what LiteLLM's code raises as our errors."""
    try:
        yield
    except Exception as error:
        raise own_error(error) from error
