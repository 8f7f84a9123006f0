"""Bodies of requests: parsing, and the checks before LiteLLM sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.types import Message, Scope

from toolgate_core.errors import (
    ClientDisconnected,
    InvalidRequest,
    ModelNotFound,
    UnsupportedParameter,
)
from toolgate_proxy.api.shared.parameter import unknown
from toolgate_proxy.server import body_guard
from toolgate_proxy.server.body_guard import check, check_controls, check_shape
from toolgate_proxy.server.transport import body

SCOPE: Scope = {"type": "http", "headers": []}


async def parsed(data: bytes, content_type: str | None = None) -> dict[str, Any]:
    headers = [] if content_type is None else [(b"content-type", content_type.encode())]
    scope: Scope = {"type": "http", "headers": headers}
    return await body.RequestBody(data).parsed(scope, body_guard.check_bounds)


def message(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": data, "more_body": more}


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ([1], None),
        ("text", None),
        ({"model": 3}, "model"),
        ({"stream": "yes"}, "stream"),
        ({"messages": "hello"}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "x"}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": [1]}]}, "messages[0].tool_calls[0]"),
        ({"tools": "x"}, "tools"),
        ({"tools": [None]}, "tools[0]"),
        ({"functions": 3}, "functions"),
        ({"functions": [None]}, "functions[0]"),
        ({"response_format": "json"}, "response_format"),
        ({"extra_headers": ["a"]}, "extra_headers"),
        ({"stream": True, "stream_options": 3}, "stream_options"),
        (
            {"stream": True, "stream_options": {"include_usage": "yes"}},
            "stream_options.include_usage",
        ),
    ],
)
async def test_error_names_the_field_of_the_wrong_type(sent: Any, param: str | None) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_shape(await parsed(json.dumps(sent).encode()))
    assert refusal.value.param == param


@pytest.mark.parametrize(
    "sent",
    [
        b"{}",
        b'{"messages": null, "tools": null}',
        b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
    ],
)
async def test_other_fields_are_not_checked(sent: bytes) -> None:
    check_shape(await parsed(sent))


@pytest.mark.parametrize("sent", [b"", b"{", b"[" * 10_000, b"\xff", b'{"a": 1} x'])
async def test_invalid_json_is_rejected(sent: bytes) -> None:
    with pytest.raises(InvalidRequest):
        await parsed(sent)


@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "Multipart/Form-Data; boundary=x"]
)
async def test_form_body_is_rejected_with_the_expected_content_type(content_type: str) -> None:
    with pytest.raises(InvalidRequest, match="application/json"):
        await parsed(b"{}", content_type)
    assert await parsed(b"{}", "text/plain") == {}


async def test_lone_surrogate_is_parsed() -> None:
    assert await parsed(b'{"a": "\\ud800"}') == {"a": "\ud800"}


async def test_body_is_read_completely_and_can_be_read_again() -> None:
    sent = [message(b'{"a', more=True), message(b'": 1}')]
    later: Message = {"type": "http.disconnect"}
    waiting = iter([*sent, later])

    async def receive() -> Message:
        return next(waiting)

    read = await body.read(SCOPE, receive, limit=100, seconds=5)
    assert await read.parsed(SCOPE, body_guard.check_bounds) == {"a": 1}
    again = read.again(receive)
    assert [await again() for _ in range(2)] == [message(b'{"a": 1}'), later]


async def test_disconnect_ends_the_reading_of_a_body() -> None:
    waiting = iter([message(b"{", more=True), {"type": "http.disconnect"}])

    async def receive() -> Message:
        return next(waiting)

    with pytest.raises(ClientDisconnected):
        await body.read(SCOPE, receive, limit=100, seconds=5)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/responses"])
def test_our_models_on_litellms_route_have_no_converted_api(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """LiteLLM would convert the request to a chat completion, and lose parts of it."""
    monkeypatch.setattr(body_guard, "is_foreign", lambda model, _: model == "claude")
    monkeypatch.setattr(body_guard, "rows_of", lambda model, _: [{}] if model == "small" else [])
    monkeypatch.setattr(body_guard, "litellms_reason", lambda *_: "a reason")
    assert check(path, {"model": "claude"}) is False
    with pytest.raises(UnsupportedParameter) as refusal:
        check(path, {"model": "small"})
    assert refusal.value.param == "model"
    with pytest.raises(ModelNotFound):
        check(path, {"model": "unknown"})
    with pytest.raises(InvalidRequest):
        check(path, {})


def test_messages_of_threads_are_not_those_of_models() -> None:
    assert check("/v1/threads/thread_1/messages", {"role": "user"}) is False


def test_error_about_a_non_unicode_field_name_can_be_encoded() -> None:
    assert json.dumps(unknown("a\ud800").body(), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ({"api_base": "http://x"}, "api_base"),
        ({"extra_body": {"mock_response": "x"}}, "extra_body.mock_response"),
        ({"litellm_params": {"fallbacks": []}}, "litellm_params.fallbacks"),
        ({"metadata": {"api_base": "http://x"}}, "metadata.api_base"),
    ],
)
def test_control_fields_are_rejected_wherever_litellm_reads_them(
    sent: dict[str, Any], param: str
) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        check_controls(sent)
    assert refusal.value.param == param


def test_metadata_may_have_client_fields() -> None:
    check_controls({"metadata": {"fallbacks": "mine", "user": "u"}, "user": "u"})


@pytest.mark.parametrize(
    ("path", "model", "refused"),
    [
        ("/v1/chat/completions", "ours", True),
        ("/v1/chat/completions", "claude", False),
        ("/openai/deployments/claude/chat/completions", "claude", True),
        ("/v1/chat/completions", None, True),
    ],
)
def test_unknown_parameters_are_accepted_only_for_other_providers(
    monkeypatch: pytest.MonkeyPatch, path: str, model: str | None, refused: bool
) -> None:
    """A path may name another model than the body does."""
    monkeypatch.setattr(body_guard, "is_foreign", lambda model, _: model == "claude")
    sent = {"model": model, "messages": [], "new_parameter": 1}
    if not refused:
        assert check(path, sent) is False
        return
    with pytest.raises(UnsupportedParameter) as refusal:
        check(path, sent)
    assert refusal.value.param == "new_parameter"


def test_model_list_is_rejected() -> None:
    for path, model in (("/v1/chat/completions", "a,b"), ("/engines/a,b/chat/completions", "c")):
        with pytest.raises(InvalidRequest) as refusal:
            check(path, {"model": model})
        assert refusal.value.param == "model"


def test_check_returns_whether_a_stream_is_requested() -> None:
    for stream in (True, False):
        sent = {"model": "m", "messages": [], "stream": stream}
        assert check("/v1/chat/completions", sent) is stream
        assert check("/v1/embeddings", sent) is False


@pytest.mark.parametrize(
    ("path", "guarded"),
    [
        ("/v1/chat/completions", True),
        ("/engines/x/chat/completions", True),
        ("/chat/completions/", True),
        ("/v1/responses", True),
        ("/v1/messages", True),
        ("/v1/embeddings", True),
        ("/v1/completions/", True),
        ("/v1/models", False),
        ("/toolgate/prewarm", False),
    ],
)
def test_only_inference_paths_are_checked(path: str, guarded: bool) -> None:
    assert body_guard.is_guarded(path) is guarded
