"""Every error that a client of the gateway can receive.

On the wire an error is OpenAI's error object (platform.openai.com/docs/guides/error-codes):
`{"error": {"message", "type", "param", "code"}}`, plus the extra fields of its class.

docs/api/errors.md is generated from these classes (`make docs`). The docstring of a class has two
or three paragraphs: when the error occurs, what to do, and the extra fields.
"""

from __future__ import annotations

from .access import (
    InvalidKey,
    KeysUnavailable,
    LimitsUnavailable,
    MethodNotAllowed,
    ModelNotFound,
    PermissionDenied,
    QuotaExceeded,
    RateLimited,
    ResponsesUnavailable,
    RetiredKey,
    RouteClosed,
    RouteNotFound,
    TooManyWrongKeys,
    UpgradeRefused,
)
from .base import ToolgateError
from .calls import (
    ArgumentsNotChecked,
    ChecksBusy,
    ChecksFailed,
    EnforcementFailed,
    ToolSchemaViolation,
)
from .requests import (
    BudgetTooSmall,
    ContextLengthExceeded,
    InvalidRequest,
    InvalidTools,
    ItemNotFound,
    PreviousResponseNotFound,
    RequestTimeout,
    RequestTooLarge,
    ResponseNotFound,
    SchemaNotEnforceable,
    SchemaTooComplex,
    TemplateRefused,
    UnknownTool,
    UnsupportedEncoding,
    UnsupportedParameter,
)
from .services import (
    BackendFailed,
    BackendLost,
    BackendTimeout,
    BackendUnavailable,
    ClientDisconnected,
    CompactionFailed,
    GatewayMisconfigured,
    GatewayStopped,
    GrammarUnknown,
    InternalFault,
)

__all__ = [
    "ArgumentsNotChecked",
    "BackendFailed",
    "BackendLost",
    "BackendTimeout",
    "BackendUnavailable",
    "BudgetTooSmall",
    "ChecksBusy",
    "ChecksFailed",
    "ClientDisconnected",
    "CompactionFailed",
    "ContextLengthExceeded",
    "EnforcementFailed",
    "GatewayMisconfigured",
    "GatewayStopped",
    "GrammarUnknown",
    "InternalFault",
    "InvalidKey",
    "InvalidRequest",
    "InvalidTools",
    "ItemNotFound",
    "KeysUnavailable",
    "LimitsUnavailable",
    "MethodNotAllowed",
    "ModelNotFound",
    "PermissionDenied",
    "PreviousResponseNotFound",
    "QuotaExceeded",
    "RateLimited",
    "RequestTimeout",
    "RequestTooLarge",
    "ResponseNotFound",
    "ResponsesUnavailable",
    "RetiredKey",
    "RouteClosed",
    "RouteNotFound",
    "SchemaNotEnforceable",
    "SchemaTooComplex",
    "TemplateRefused",
    "TooManyWrongKeys",
    "ToolSchemaViolation",
    "ToolgateError",
    "UnknownTool",
    "UnsupportedEncoding",
    "UnsupportedParameter",
    "UpgradeRefused",
]
