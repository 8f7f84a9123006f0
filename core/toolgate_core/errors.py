"""Every error a user of the gateway can meet.

ToolgateError                      500  toolgate_error
├── InvalidRequest                 400  invalid_request
│   ├── InvalidTools               400  invalid_tools
│   ├── UnknownTool                400  unknown_tool
│   ├── UnsupportedParameter       400  unsupported_parameter
│   ├── SchemaNotEnforceable       400  schema_not_enforceable   (carries a JSON Pointer)
│   │   └── SchemaTooComplex       400  schema_too_complex
│   ├── TemplateRefused            400  template_refused
│   ├── BudgetTooSmall             400  max_tokens_too_small     (carries the least max_tokens)
│   └── ContextLengthExceeded      400  context_length_exceeded
├── InvalidKey                     401  invalid_api_key
│   └── RetiredKey                 401  invalid_api_key
├── PermissionDenied               403  permission_denied
├── TooManyWrongKeys               429  too_many_wrong_keys
├── RateLimited                    429  rate_limit_exceeded
│   └── QuotaExceeded              429  insufficient_quota
├── KeysUnavailable                503  keys_unavailable
├── LimitsUnavailable              503  limits_unavailable
├── GatewayMisconfigured           500  gateway_misconfigured
├── GrammarUnknown                 409  grammar_unknown          (carries the keys)
├── BackendUnavailable             503  backend_unavailable
├── BackendTimeout                 504  backend_timeout
├── BackendFailed                  502  backend_failed
│   └── BackendLost                502  backend_failed
├── InternalFault                  500  internal_error
├── ClientDisconnected             499  client_disconnected
├── EnforcementFailed              500  enforcement_failed
├── ToolSchemaViolation            500  tool_schema_violation    (carries a JSON Pointer, a keyword)
├── ArgumentsNotChecked            500  arguments_not_checked
└── ChecksBusy                     503  checks_busy

The shape on the wire is OpenAI's error object (platform.openai.com/docs/guides/error-codes):
`{"error": {"message", "type", "param", "code"}}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class ToolgateError(Exception):
    """Base of the tree. `message` says what happened and what to do about it."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "toolgate_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """OpenAI's error object, plus what a subclass carries."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": error | self.details()}

    def details(self) -> dict[str, Any]:
        """Fields of the error object beyond OpenAI's four."""
        return {}


class InvalidRequest(ToolgateError):
    status = 400
    type = "invalid_request_error"
    code = "invalid_request"


class InvalidTools(InvalidRequest):
    code = "invalid_tools"


class UnknownTool(InvalidRequest):
    code = "unknown_tool"


class UnsupportedParameter(InvalidRequest):
    code = "unsupported_parameter"


class SchemaNotEnforceable(InvalidRequest):
    """`pointer` is the JSON Pointer (RFC 6901) of the keyword inside the tool's `parameters`."""

    code = "schema_not_enforceable"

    def __init__(self, message: str, *, pointer: str, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.pointer = pointer

    def details(self) -> dict[str, Any]:
        return {"pointer": self.pointer}


class SchemaTooComplex(SchemaNotEnforceable):
    """Over a limit on schemas, or on what compiling one may cost."""

    code = "schema_too_complex"


class TemplateRefused(InvalidRequest):
    code = "template_refused"


class BudgetTooSmall(InvalidRequest):
    """No call that the request asks for fits `max_tokens`; `least` is the smallest that will."""

    code = "max_tokens_too_small"

    def __init__(self, message: str, *, least: int, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.least = least

    def details(self) -> dict[str, Any]:
        return {"least_max_tokens": self.least}


class ContextLengthExceeded(InvalidRequest):
    code = "context_length_exceeded"


class InvalidKey(ToolgateError):
    """Says nothing of the key that was sent: neither what it was nor what is wrong with it, unless
    it is one of ours that has run out."""

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class RetiredKey(InvalidKey):
    """One of ours that is expired, rotated, revoked or blocked: not a guess."""


class PermissionDenied(ToolgateError):
    """A key that is known asked for what it may not have."""

    status = 403
    type = "permission_error"
    code = "permission_denied"


class TooManyWrongKeys(ToolgateError):
    status = 429
    type = "authentication_error"
    code = "too_many_wrong_keys"


class RateLimited(ToolgateError):
    """`limited` is what there was too much of: requests, tokens, or parallel_requests."""

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
        self.headers: dict[str, str] = {}
        """OpenAI's x-ratelimit-… of the moment."""

    def details(self) -> dict[str, Any]:
        return {"type": self.limited}  # OpenAI's rate limits name the unit for a type


class QuotaExceeded(RateLimited):
    """The day's budget of tokens is spent."""

    code = "insufficient_quota"


class KeysUnavailable(ToolgateError):
    """Redis holds the keys and has not answered for too long."""

    status = 503
    type = "service_unavailable_error"
    code = "keys_unavailable"


class LimitsUnavailable(ToolgateError):
    """Redis counts the limits and does not answer, and the gateway is to fail closed."""

    status = 503
    type = "service_unavailable_error"
    code = "limits_unavailable"


class GatewayMisconfigured(ToolgateError):
    """What a key promises can't be enforced the way this gateway was started."""

    code = "gateway_misconfigured"


class GrammarUnknown(ToolgateError):
    """The backend lacks these grammars. The proxy loads them and repeats, as after NOSCRIPT."""

    status = 409
    type = "invalid_request_error"
    code = "grammar_unknown"

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__("These grammars are not loaded here; load them and repeat the request.")
        self.keys = tuple(keys)

    def details(self) -> dict[str, Any]:
        return {"keys": list(self.keys)}


class BackendUnavailable(ToolgateError):
    status = 503
    type = "service_unavailable_error"
    code = "backend_unavailable"


class BackendTimeout(ToolgateError):
    status = 504
    type = "timeout_error"
    code = "backend_timeout"


class BackendFailed(ToolgateError):
    status = 502
    type = "server_error"
    code = "backend_failed"


class BackendLost(BackendFailed):
    """The connection broke off after the request had been taken."""


class InternalFault(ToolgateError):
    """A bug of the gateway; its log has the traceback."""

    code = "internal_error"


class ClientDisconnected(ToolgateError):
    """Never sent to a client: log events name a request by it whose client did not wait."""

    status = 499
    code = "client_disconnected"


class EnforcementFailed(ToolgateError):
    code = "enforcement_failed"


class ToolSchemaViolation(ToolgateError):
    """The model went on breaking what no mask holds. `pointer` is the JSON Pointer into the call's
    arguments, `keyword` the schema's keyword that fails there."""

    code = "tool_schema_violation"

    def __init__(
        self, message: str, *, pointer: str = "", keyword: str = "", param: str | None = None
    ) -> None:
        super().__init__(message, param=param)
        self.pointer = pointer
        self.keyword = keyword

    def details(self) -> dict[str, Any]:
        return {"pointer": self.pointer, "keyword": self.keyword}


class ArgumentsNotChecked(ToolgateError):
    """A finished call whose check went over its limits: it is not sent on unchecked."""

    code = "arguments_not_checked"


class ChecksBusy(ToolgateError):
    """A schema or a call that takes a process of its own to check, and none became free in time."""

    status = 503
    type = "service_unavailable_error"
    code = "checks_busy"
