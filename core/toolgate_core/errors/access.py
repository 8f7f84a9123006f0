"""Errors of API keys, their permissions and their limits."""

from __future__ import annotations

from typing import Any

from .base import ToolgateError


class InvalidKey(ToolgateError):
    """The API key is missing or invalid.

    Send a valid key as `Authorization: Bearer …`."""

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class RetiredKey(InvalidKey):
    """The API key is expired, rotated, revoked or blocked.

    Request a new key."""


class PermissionDenied(ToolgateError):
    """The API key has no permission for this route or this model.

    Use a model that the message lists, or the master key."""

    status = 403
    type = "permission_error"
    code = "permission_denied"


class ModelNotFound(ToolgateError):
    """The model does not exist, or the API key may not use it.

    `GET /v1/models` lists the models."""

    status = 404
    type = "invalid_request_error"
    code = "model_not_found"


class RouteClosed(ToolgateError):
    """LiteLLM serves this route without a key, so the gateway closes it.

    The operator can open it with `TOOLGATE_OPEN_ROUTES`."""

    status = 404
    type = "invalid_request_error"
    code = "not_found"


class UpgradeRefused(ToolgateError):
    """The Responses API is not served over a WebSocket.

    Use HTTP, as clients do after this error."""

    status = 426
    type = "invalid_request_error"
    code = "websocket_not_supported"


class RouteNotFound(ToolgateError):
    """There is no such route, or the configuration lacks the database or provider that it needs.

    Correct what the message names."""

    status = 404
    type = "invalid_request_error"
    code = "route_not_found"


class MethodNotAllowed(RouteNotFound):
    """The route has no such method.

    Use a method of the header Allow."""

    status = 405
    code = "method_not_allowed"


class TooManyWrongKeys(ToolgateError):
    """One IP address sent more than `TOOLGATE_WRONG_KEYS_PER_MINUTE` invalid keys.

    Wait as long as Retry-After says."""

    status = 429
    type = "authentication_error"
    code = "too_many_wrong_keys"


class RateLimited(ToolgateError):
    """A limit of the API key is reached: requests or tokens per minute, parallel requests, or the
    size of the bodies of active requests. `type` is `requests` or `tokens`.

    Wait for Retry-After. Without it, make the request smaller."""

    status = 429
    type = "requests"
    code = "rate_limit_exceeded"

    def __init__(
        self,
        message: str,
        *,
        limited: str = "requests",
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message, param=param, retry_after=retry_after)
        self.limited = limited

    def details(self) -> dict[str, Any]:
        return {"type": self.limited}  # OpenAI's rate limit errors name the unit as their type


class QuotaExceeded(RateLimited):
    """A daily limit of the API key is used up.

    Wait for Retry-After, or raise the limit."""

    code = "insufficient_quota"


class KeysUnavailable(ToolgateError):
    """Redis, which stores the keys, has not responded for 5 minutes.

    Send the request again. The operator of the gateway must restore Redis."""

    status = 503
    type = "service_unavailable_error"
    code = "keys_unavailable"


class ResponsesUnavailable(ToolgateError):
    """The request needs a stored response, and Redis does not respond or refuses the command.

    Send the request again. The operator of the gateway must restore Redis."""

    status = 503
    type = "service_unavailable_error"
    code = "responses_unavailable"


class LimitsUnavailable(ToolgateError):
    """The API key has limits, Redis does not respond or refuses the command, and
    `TOOLGATE_LIMITS_WITHOUT_REDIS` is `closed`.

    Send the request again. The operator must restore Redis, or delete an entry of a wrong type."""

    status = 503
    type = "service_unavailable_error"
    code = "limits_unavailable"
