"""Errors between the gateway and LiteLLM: ours as its exceptions, its exceptions as ours, its
bodies with our codes, and the texts of its calls of MCP servers that fail."""

import litellm
import pytest
from fastapi import HTTPException
from litellm.proxy._types import ProxyException

from tests.proxy.kit import beside
from toolgate_core import errors
from toolgate_proxy.features.mcp.litellm_servers import OF_SERVERS, MCPClient, noted_failures
from toolgate_proxy.litellm_host.app import repaired
from toolgate_proxy.litellm_host.errors import (
    HostRefused,
    cleaned,
    errors_raised,
    host_error,
    own_error,
    own_errors,
    proxy_exception,
)
from toolgate_proxy.provider import toolgate

CASES = beside(__file__)


class NotFound(errors.ToolgateError):
    status = 404


@pytest.fixture(autouse=True)
def _patched():
    """The provider's module makes the patches of `ProxyException`."""
    assert toolgate


# --- ours as LiteLLM's ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.UnknownTool("No.", param="tool_choice"), litellm.BadRequestError),
        (errors.ContextLengthExceeded("No.", param="messages"), litellm.ContextWindowExceededError),
        (errors.InvalidKey("No."), litellm.AuthenticationError),
        (errors.PermissionDenied("No."), litellm.BadRequestError),
        (NotFound("No."), litellm.NotFoundError),
        (errors.RateLimited("No.", param="model", retry_after=7), litellm.RateLimitError),
        (errors.BackendUnavailable("No.", retry_after=3), litellm.ServiceUnavailableError),
        (errors.BackendFailed("No."), litellm.BadGatewayError),
        (errors.BackendTimeout("No."), litellm.Timeout),
        (errors.EnforcementFailed("No."), litellm.InternalServerError),
    ],
)
def test_our_errors_become_litellm_exceptions_with_the_same_status_and_body(error, kind):
    with pytest.raises(kind) as raised, errors_raised("tiny"):
        raise error
    host = raised.value
    assert type(host) is kind
    assert (host.status_code, host.message) == (error.status, error.message)
    assert (host.type, host.param) == (error.type, error.param)
    retry = {"retry-after": str(error.retry_after)} if error.retry_after else {}
    assert host.headers == retry
    assert own_error(host) is own_error(error) is own_error(proxy_exception(error)) is error
    try:
        raise host
    except Exception:  # noqa: BLE001  # as LiteLLM handles it
        shown = ProxyException(message="litellm.X: other", type="t", param=None, code=error.status)
    assert shown.to_dict() == error.body()["error"]
    assert shown.code == str(error.status)


def test_litellm_retries_our_429_and_keeps_its_own_bodies():
    """LiteLLM decides on retries and fallbacks by class and status."""
    limited, denied = (
        host_error(errors.RateLimited("No."), "m"),
        host_error(errors.InvalidKey("No."), "m"),
    )
    assert not isinstance(denied, litellm.RateLimitError)
    assert litellm._should_retry(limited.status_code)
    assert not litellm._should_retry(denied.status_code)
    shown = ProxyException(message="No.", type="t", param="p", code=400)
    assert shown.to_dict() == {"message": "No.", "type": "t", "param": "p", "code": "400"}
    made = proxy_exception(errors.RateLimited("Wait.", retry_after=7))
    assert made.to_dict()["code"] == "rate_limit_exceeded"
    assert (str(made.code), made.headers["retry-after"]) == ("429", "7")


@pytest.mark.parametrize(
    ("error", "ours", "provider"),
    [
        (errors.EnforcementFailed("No."), True, "toolgate"),
        (errors.EnforcementFailed("No."), False, None),
        (errors.UnknownTool("No."), True, None),
    ],
)
def test_only_server_errors_of_our_models_have_our_provider_name(error, ours, provider):
    """LiteLLM logs an exception without a provider as the client's fault, without a traceback."""
    assert host_error(error, "m", ours=ours).llm_provider == provider


# --- LiteLLM's as ours ----------------------------------------------------------------------------


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
    exception, status, message, code
):
    error = own_error(exception)
    assert isinstance(error, HostRefused)
    assert (error.status, error.message, error.code) == (status, message, code)
    body = error.body()["error"]
    assert (body["message"], body["code"], body["param"]) == (message, code, None)


def test_litellm_exceptions_keep_param_retry_after_and_their_cause():
    error = own_error(ProxyException("No.", "bad_request", "tools", 400))
    assert (error.param, error.retry_after) == ("tools", None)
    assert own_error(ProxyException("No.", "bad_request", "None", 400)).param is None
    for given, seconds in (("3", 3), ("Wed, 21 Oct 2026 07:28:00 GMT", None)):
        limited = HTTPException(429, {"error": "Wait."}, headers={"Retry-After": given})
        assert own_error(limited).retry_after == seconds
    cause = HTTPException(403, {"error": "Not on Mondays."})
    with pytest.raises(HostRefused, match="Not on Mondays") as raised, own_errors():
        raise cause
    assert raised.value.__cause__ is cause
    assert (raised.value.status, HostRefused.status) == (403, errors.ToolgateError.status)


@pytest.mark.parametrize(("status", "kind"), CASES["types"])
def test_litellm_error_type_depends_on_its_status(status, kind):
    assert HostRefused("No.", status).body()["error"]["type"] == kind
    assert HostRefused("No.", status, param="model").param == "model"


@pytest.mark.parametrize("status", [0, 99, 200, 302, 399, 600, "x", None])
def test_exception_without_an_error_status_becomes_a_500(status):
    exception = ValueError("No.")
    exception.status_code = status
    assert own_error(exception).status == 500


@pytest.mark.parametrize(("said", "meant"), CASES["messages"])
def test_litellm_class_names_and_tracebacks_are_removed_from_messages(said, meant):
    assert cleaned(said) == own_error(RuntimeError(said)).message == meant
    shown = repaired(ProxyException(said, "invalid_request_error", "None", 400))
    assert (shown.status, shown.message) == (400, meant)
    assert (shown.code, shown.param) == ("invalid_request", None)


OPERATION = "Toolgate models do not support this operation."


@pytest.mark.parametrize(("given", "said", "status", "code", "message"), CASES["bodies"])
def test_litellms_bodies_get_our_status_and_code(given, said, status, code, message):
    kind = "no_db_connection" if status == 401 else "invalid_request_error"
    shown = repaired(ProxyException(said, kind, "None", given))
    assert (shown.status, code or shown.code) == (status, shown.code)
    assert message in shown.message
    if status == 401:
        assert shown.type == "authentication_error"
    if message == OPERATION:
        assert shown.param == "model"


# --- calls of MCP servers -------------------------------------------------------------------------

ADDRESS = "http://inner.example"


def text_of(error):
    return str(MCPClient.error_tool_result(error).content[0].text)


def test_only_our_own_calls_of_mcp_servers_hide_the_message():
    """Those of LiteLLM's own routes, and of its fallbacks in the same task, have it."""
    error = RuntimeError(ADDRESS)
    with noted_failures():
        assert ADDRESS not in text_of(error)
    assert ADDRESS in text_of(error)


@pytest.mark.parametrize("name", OF_SERVERS)
def test_an_error_of_the_server_is_shown(name):
    with noted_failures():
        assert "No such record." in text_of(type(name, (Exception,), {})("No such record."))
