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
