"""Errors between the gateway and LiteLLM: ours as its exceptions, and its exceptions as ours."""

from __future__ import annotations

from typing import Any

import litellm
import pytest
from fastapi import HTTPException
from litellm.proxy._types import ProxyException

from toolgate_core.errors import (
    BackendFailed,
    BackendTimeout,
    BackendUnavailable,
    ContextLengthExceeded,
    EnforcementFailed,
    InvalidKey,
    PermissionDenied,
    RateLimited,
    ToolgateError,
    UnknownTool,
)
from toolgate_proxy.litellm_host.errors import (
    HostRefused,
    carried,
    cleaned,
    errors_raised,
    host_error,
    own_error,
    own_errors,
    proxy_exception,
)
from toolgate_proxy.provider import toolgate


class NotFound(ToolgateError):
    status = 404


@pytest.fixture(autouse=True)
def _patched() -> None:
    """The provider's module makes the patches of `ProxyException`."""
    assert toolgate


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnknownTool("No.", param="tool_choice"), litellm.BadRequestError),
        (ContextLengthExceeded("No.", param="messages"), litellm.ContextWindowExceededError),
        (InvalidKey("No."), litellm.AuthenticationError),
        (PermissionDenied("No."), litellm.BadRequestError),
        (NotFound("No."), litellm.NotFoundError),
        (RateLimited("No.", param="model", retry_after=7), litellm.RateLimitError),
        (BackendUnavailable("No.", retry_after=3), litellm.ServiceUnavailableError),
        (BackendFailed("No."), litellm.BadGatewayError),
        (BackendTimeout("No."), litellm.Timeout),
        (EnforcementFailed("No."), litellm.InternalServerError),
    ],
)
def test_our_errors_become_litellm_exceptions_with_the_same_status_and_body(
    error: ToolgateError, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as raised, errors_raised("tiny"):
        raise error
    host: Any = raised.value
    assert type(host) is kind
    assert (host.status_code, host.message) == (error.status, error.message)
    assert (host.type, host.param) == (error.type, error.param)
    retry = {"retry-after": str(error.retry_after)} if error.retry_after else {}
    assert host.headers == retry
    assert carried(host) is error
    try:
        raise host
    except Exception:  # noqa: BLE001  # as LiteLLM handles it
        shown = ProxyException(message="litellm.X: other", type="t", param=None, code=error.status)
    assert shown.to_dict() == error.body()["error"]
    assert shown.code == str(error.status)


def test_litellm_retries_our_429_and_not_our_401() -> None:
    """LiteLLM decides on retries and fallbacks by class and status."""
    limited, denied = host_error(RateLimited("No."), "m"), host_error(InvalidKey("No."), "m")
    assert isinstance(limited, litellm.RateLimitError)
    assert isinstance(denied, litellm.AuthenticationError)
    assert not isinstance(denied, litellm.RateLimitError)
    assert litellm._should_retry(limited.status_code)  # type: ignore[attr-defined]
    assert not litellm._should_retry(denied.status_code)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("error", "ours", "provider"),
    [
        (EnforcementFailed("No."), True, "toolgate"),
        (EnforcementFailed("No."), False, None),
        (UnknownTool("No."), True, None),
    ],
)
def test_only_server_errors_of_our_models_have_our_provider_name(
    error: ToolgateError, ours: bool, provider: str | None
) -> None:
    """LiteLLM logs an exception without a provider as the client's fault, without a traceback."""
    host: Any = host_error(error, "m", ours=ours)
    assert host.llm_provider == provider


def test_litellm_errors_keep_their_bodies() -> None:
    shown = ProxyException(message="No.", type="t", param="p", code=400)
    assert shown.to_dict() == {"message": "No.", "type": "t", "param": "p", "code": "400"}


def test_authentication_errors_keep_code_status_and_retry_after() -> None:
    made = proxy_exception(RateLimited("Wait.", retry_after=7))
    assert made.to_dict()["code"] == "rate_limit_exceeded"
    assert (str(made.code), made.headers["retry-after"]) == ("429", "7")


# --- LiteLLM's exceptions as ours -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("exception", "status", "message", "code"),
    [
        (HTTPException(403, {"error": "Not on Mondays."}), 403, "Not on Mondays.",
         "permission_denied"),
        (HTTPException(400, "No."), 400, "No.", "invalid_request"),
        (HTTPException(429, {"error": "Wait."}), 429, "Wait.", "rate_limit_exceeded"),
        (ProxyException("No.", "auth_error", None, 401), 401, "No.", "invalid_api_key"),
        (ProxyException("No.", "budget_exceeded", None, "422"), 422, "No.", "invalid_request"),
        (litellm.RateLimitError("No deployments.", "toolgate", "m"), 429, "No deployments.",
         "rate_limit_exceeded"),
        (litellm.NotFoundError("No model.", "m", "toolgate"), 404, "No model.", "not_found"),
        (litellm.Timeout("Late.", "m", "toolgate"), 408, "Late.", "timeout"),
        (litellm.ServiceUnavailableError("Gone.", "toolgate", "m"), 503, "Gone.",
         "service_unavailable"),
        (ValueError("A bug."), 500, "A bug.", "server_error"),
    ],
)  # fmt: skip
def test_litellm_exceptions_become_our_errors_with_the_same_status(
    exception: Exception, status: int, message: str, code: str
) -> None:
    error = own_error(exception)
    assert isinstance(error, HostRefused)
    assert (error.status, error.message, error.code) == (status, message, code)
    body = error.body()["error"]
    assert (body["message"], body["code"], body["param"]) == (message, code, None)


def test_param_and_retry_after_of_litellm_exceptions_are_kept() -> None:
    error = own_error(ProxyException("No.", "bad_request", "tools", 400))
    assert (error.param, error.retry_after) == ("tools", None)
    assert own_error(ProxyException("No.", "bad_request", "None", 400)).param is None
    limited = HTTPException(429, {"error": "Wait."}, headers={"Retry-After": "3"})
    assert own_error(limited).retry_after == 3
    dated = HTTPException(429, "Wait.", headers={"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"})
    assert own_error(dated).retry_after is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (429, "requests"),
        (500, "server_error"),
        (503, "server_error"),
    ],
)
def test_litellm_error_type_depends_on_its_status(status: int, kind: str) -> None:
    assert HostRefused("No.", status).body()["error"]["type"] == kind
    assert HostRefused("No.", status, param="model").param == "model"


@pytest.mark.parametrize("status", [0, 99, 200, 302, 399, 600, "x", None])
def test_exception_without_an_error_status_becomes_a_500(status: object) -> None:
    exception = ValueError("No.")
    exception.status_code = status  # type: ignore[attr-defined]
    assert own_error(exception).status == 500


def test_our_error_is_recovered_from_litellms_exception() -> None:
    error = UnknownTool("No.", param="tool_choice")
    assert own_error(error) is error
    assert own_error(host_error(error, "m")) is error
    assert own_error(proxy_exception(error)) is error


def test_own_errors_converts_litellm_exceptions_and_keeps_the_cause() -> None:
    cause = HTTPException(403, {"error": "Not on Mondays."})
    with pytest.raises(HostRefused, match="Not on Mondays") as raised, own_errors():
        raise cause
    assert raised.value.__cause__ is cause
    assert (raised.value.status, HostRefused.status) == (403, ToolgateError.status)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("litellm.BadRequestError: No.\n\nLiteLLM: model group 'm' failed.", "No."),
        ("/chat/completions: Missing 'messages'.", "Missing 'messages'."),
        ("litellm.APIError: It broke.\nTraceback (most recent call last):\n  File", "It broke."),
        ("Plain.", "Plain."),
    ],
)
def test_litellm_class_names_and_tracebacks_are_removed_from_messages(
    message: str, expected: str
) -> None:
    assert cleaned(message) == expected
    assert own_error(RuntimeError(message)).message == expected
