from __future__ import annotations

import pytest

from toolgate_proxy.litellm_host.error_bodies import repaired


def error(message: str, code: str, kind: str = "invalid_request_error") -> dict[str, object]:
    return {"message": message, "type": kind, "param": "None", "code": code}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("litellm.BadRequestError: No.\n\nLiteLLM: model group 'm' failed.", "No."),
        ("/chat/completions: Missing 'messages'.", "Missing 'messages'."),
        ("litellm.APIError: It broke.\nTraceback (most recent call last):\n  File", "It broke."),
        ("Plain.", "Plain."),
    ],
)
def test_litellm_details_are_removed_from_messages(said: str, meant: str) -> None:
    status, body = repaired(400, error(said, "400"))
    assert (status, body["message"], body["code"], body["param"]) == (
        400,
        meant,
        "invalid_request",
        None,
    )


def test_unknown_model_gets_404() -> None:
    status, body = repaired(400, error("/x: Invalid model name passed in model=y.", "400"))
    assert (status, body["code"]) == (404, "model_not_found")


def test_invalid_key_gets_401() -> None:
    status, body = repaired(400, error("No connected db.", "400", "no_db_connection"))
    assert (status, body["type"], body["code"]) == (
        401,
        "authentication_error",
        "invalid_api_key",
    )


def test_our_own_errors_are_unchanged() -> None:
    body = error("litellm.X: kept", "unknown_tool")
    assert repaired(400, body) == (400, body)


@pytest.mark.parametrize(
    "message",
    [
        "litellm.APIConnectionError: 'toolgate' is not a valid LlmProviders",
        " - invalid provider: toolgate",
    ],
)
def test_operation_without_a_custom_provider_gets_400(message: str) -> None:
    status, body = repaired(500, error(message, "500", "internal_server_error"))
    assert (status, body["code"], body["param"]) == (400, "invalid_request", "model")
    assert "Toolgate models do not support this operation." in str(body["message"])


def test_the_same_message_about_another_provider_stays_a_500() -> None:
    status, _ = repaired(500, error("'other' is not a valid LlmProviders", "500"))
    assert status == 500
