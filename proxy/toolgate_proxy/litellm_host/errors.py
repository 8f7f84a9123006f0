"""Conversion between Toolgate's errors and LiteLLM's exceptions.

LiteLLM's router and loggers depend on the class of an exception: a 429 is a RateLimitError, a 401
an AuthenticationError. Each exception carries our error, which provides the response's body
(patches.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import litellm
from litellm.proxy._types import ProxyException
from litellm.types.router import RouterErrors

from toolgate_core.errors import ContextLengthExceeded, PermissionDenied, ToolgateError
from toolgate_core.host_probe import optional

from .context import current

PROVIDER = "toolgate"
"""Our provider in LiteLLM's names of models."""
TAGS = RouterErrors.no_deployments_with_tag_routing.value
"""Part of the message of LiteLLM's router if no deployment has the tags of a request. LiteLLM sends
it with the status of an invalid key."""
CARRIED = "toolgate_error"
"""Attribute of LiteLLM's exceptions that holds our error."""

CLASSES = {
    401: litellm.AuthenticationError,
    404: litellm.NotFoundError,
    429: litellm.RateLimitError,
    502: litellm.BadGatewayError,
    503: litellm.ServiceUnavailableError,
    504: litellm.Timeout,
}
"""LiteLLM's exceptions by HTTP status. Any other status below 500 is a BadRequestError, from 500
an InternalServerError."""


def carry(exception: Any, error: ToolgateError) -> Any:
    """Attach `error` to LiteLLM's exception, so that the response has our error's body."""
    setattr(exception, CARRIED, error)
    return exception


def host_error(error: ToolgateError, model: str, *, ours: bool = True) -> Exception:
    """Return LiteLLM's exception for `error`, with the same status."""
    # LiteLLM logs an exception without a provider as the client's fault, without a traceback.
    provider = PROVIDER if ours and error.status >= 500 else None
    host: Any = _class_of(error)(message=error.message, model=model, llm_provider=provider)
    host.message, host.status_code = error.message, error.status
    host.type, host.param = error.type, error.param
    host.headers = {"retry-after": str(error.retry_after)} if error.retry_after else {}
    raised: Exception = carry(host, error)
    return raised


def _class_of(error: ToolgateError) -> Any:
    if isinstance(error, ContextLengthExceeded):
        return litellm.ContextWindowExceededError  # LiteLLM's `context_window_fallbacks` need it
    default = litellm.InternalServerError if error.status >= 500 else litellm.BadRequestError
    return CLASSES.get(error.status, default)


@contextmanager
def errors_raised(model: str) -> Iterator[None]:
    """Raise Toolgate's errors as LiteLLM's exceptions."""
    try:
        yield
    except ToolgateError as error:
        current().outcome.code = error.code
        raise host_error(error, model) from error


def proxy_exception(error: ToolgateError) -> ProxyException:
    """Return the ProxyException for an authentication error, with its body, status and headers."""
    headers = {"retry-after": str(error.retry_after)} if error.retry_after else {}
    raised = ProxyException(error.message, error.type, error.param, error.status, headers=headers)
    return carry(raised, error)


class HostRefused(ToolgateError):
    """An error raised by LiteLLM: its authentication, a callback's hook, or its router."""

    def __init__(
        self,
        message: str,
        status: int,
        *,
        kind: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        """`kind`: LiteLLM's type of the error, if it has one."""
        super().__init__(message, param=param, retry_after=retry_after)
        default = "server_error" if status >= 500 else TYPES.get(status, "invalid_request_error")
        self.status = status  # type: ignore[misc]  # status, type and code of this instance
        self.type = kind or default  # type: ignore[misc]
        self.code = CODES.get(status, "server_error")  # type: ignore[misc]


EXPIRED = "expired_key"
"""LiteLLM's only type of a 401 that tells more than the status."""
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
"""Error codes by HTTP status: OpenAI's where it has one."""


def own_error(exception: Exception) -> ToolgateError:
    """Return Toolgate's error for an exception of LiteLLM or of a callback."""
    if isinstance(exception, ToolgateError):
        return exception
    carried: ToolgateError | None = optional(exception, CARRIED)
    if carried is not None:
        return carried
    if TAGS in str(exception):
        return PermissionDenied(
            "No deployment of the model has the tags of this API key or request. Change those of "
            "the request, of the key (`toolgate keys update NAME --tag …`) or of the deployments."
        )
    codes = (str(optional(exception, name, "")) for name in ("status_code", "code"))
    status = next((int(value) for value in codes if value.isdigit()), 500)
    status = status if 400 <= status < 600 else 500
    detail = optional(exception, "detail") or optional(exception, "message")
    if isinstance(detail, dict):
        detail = detail.get("error", detail)
    param = optional(exception, "param")
    kind = exception.type if isinstance(exception, ProxyException) else None
    return HostRefused(
        cleaned(str(detail or exception)),
        status,
        kind=kind if status != 401 or kind == EXPIRED else None,
        param=param if isinstance(param, str) and param != "None" else None,
        retry_after=_retry_after(optional(exception, "headers")),
    )


def _retry_after(headers: object) -> int | None:
    """Return the `retry-after` header in seconds; None for a date."""
    fields = dict(headers) if isinstance(headers, Mapping) else {}
    value = next((value for name, value in fields.items() if name.lower() == "retry-after"), "")
    return int(value) if str(value).isdigit() else None


def cleaned(message: str) -> str:
    """Remove LiteLLM's class names, tracebacks and routing details from a message."""
    return SUFFIX.sub("", PREFIX.sub("", message))


PREFIX = re.compile(r"^(?:litellm\.\w+: |/[\w/]+: |Invalid request format: )+")
SUFFIX = re.compile(
    r"\n+(?:Traceback \(most recent call last\)|LiteLLM: |This looks like a bug in LiteLLM).*",
    re.DOTALL,
)


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise LiteLLM's exceptions as Toolgate's errors."""
    try:
        yield
    except Exception as error:
        raise own_error(error) from error
