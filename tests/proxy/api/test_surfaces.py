"""API surfaces: paths, streams and errors, and the routes that a virtual key opens."""

from __future__ import annotations

import json

import pytest
from litellm.proxy import proxy_server

from toolgate_core.errors import SchemaNotEnforceable
from toolgate_proxy.api.chat_completions.surface import ChatCompletions
from toolgate_proxy.api.responses.surface import Responses
from toolgate_proxy.api.surface import is_streamed
from toolgate_proxy.api.surfaces import MESSAGES, SURFACES, surface_of
from toolgate_proxy.backend_client.event_stream import SseParser
from toolgate_proxy.keys.permissions import may_open

CHAT_PATHS = {
    "/v1/chat/completions": "",
    "/chat/completions": "",
    "/engines/tiny/chat/completions": "tiny",
    "/openai/deployments/tiny/chat/completions": "tiny",
    "/v1/engines/org/tiny/chat/completions": "org/tiny",
}


@pytest.mark.parametrize("path", CHAT_PATHS)
def test_a_path_may_name_the_model(path: str) -> None:
    found = ChatCompletions().path.fullmatch(path)
    assert found is not None
    assert (found["model"] or "") == CHAT_PATHS[path]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/completions",
        "/v1/chat/completions/",
        "/v1/chat/completions/chatcmpl-1",
        "/v1/responses/",
        "/v1/responses/resp_1",
        "/v1/responses/compact",
        "/openai/responses",
        "/v1/messages/",
        "/v1/messages/count_tokens",
        "/messages",
        "/engines//chat/completions",
        "/x/v1/chat/completions",
        "/",
        "",
    ],
)
def test_other_paths_have_no_surface(path: str) -> None:
    assert not any(surface.path.fullmatch(path) for surface in SURFACES)


def test_all_chat_paths_of_litellm_have_a_surface() -> None:
    """Otherwise requests at a path would go LiteLLM's way, without a word about it."""
    paths = {
        route.path
        for route in proxy_server.app.routes
        if route.path.endswith("/chat/completions") and "POST" in (route.methods or ())
    }
    assert len(paths) >= 4
    for path in paths:
        if path.startswith(("/v1/", "/chat", "/engines", "/openai")):
            asked = path.replace("{model:path}", "tiny").replace("{model}", "tiny")
            assert ChatCompletions().path.fullmatch(asked), path


def test_all_responses_paths_of_litellm_have_a_surface() -> None:
    paths = {
        route.path
        for route in proxy_server.app.routes
        if route.path.endswith("/responses") and "POST" in (getattr(route, "methods", None) or ())
    }
    assert len(paths) >= 3
    assert all(Responses().path.fullmatch(path) for path in paths)


def test_all_messages_paths_of_litellm_have_a_surface() -> None:
    paths = {
        route.path
        for route in proxy_server.app.routes
        if route.path.endswith("/messages") and "POST" in (getattr(route, "methods", None) or ())
    }
    own = {path for path in paths if "{" not in path}
    assert all(MESSAGES.path.fullmatch(path) for path in own)
    assert own <= {"/v1/messages"}


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("/v1/messages", (), "messages"),
        ("/v1/messages/count_tokens", (), "messages"),
        ("/v1/messages/batches/b", (), "messages"),
        ("/v1/models", (), None),
        ("/v1/models", ("anthropic-version",), "messages"),
        ("/v1/models/org/tiny", ("anthropic-version",), "messages"),
        ("/v1/chat/completions", ("anthropic-version",), "chat completions"),
        ("/v1/responses", (), "responses"),
        ("/v1/messages-x", (), None),
        ("/key/info", ("anthropic-version",), None),
    ],
)
def test_errors_have_the_form_of_the_path(
    path: str, headers: tuple[str, ...], name: str | None
) -> None:
    surface = surface_of(path, headers)
    assert (surface and surface.name) == name


@pytest.mark.parametrize(
    ("body", "streamed"),
    [({"stream": True}, True), ({"stream": False}, False), ({}, False), ({"stream": "yes"}, False)],
)
def test_only_stream_true_asks_for_a_stream(body: dict[str, object], streamed: bool) -> None:
    assert is_streamed(body) is streamed


def test_an_error_is_the_same_object_in_a_body_and_in_a_stream() -> None:
    error = SchemaNotEnforceable("Line one.\nLine two.", pointer="/a", param="tools[0]")
    surface = ChatCompletions()
    body = surface.error(error)
    event = surface.error_event(body)
    assert event.endswith(b"\n\n")
    assert [json.loads(data) for data in SseParser().feed(event)] == [body]
    assert body["error"]["pointer"] == "/a"


def test_surfaces_have_names_and_call_types_of_litellm() -> None:
    assert len({surface.name for surface in SURFACES}) == len(SURFACES)
    assert {surface.call_type for surface in SURFACES} == {
        "acompletion",
        "anthropic_messages",
        "aresponses",
    }


@pytest.mark.parametrize(
    "path",
    ["/v1/chat/completions", "/chat/completions", "/v1/completions", "/v1/embeddings",
     "/v1/responses", "/v1/responses/compact", "/v1/messages", "/v1/messages/count_tokens"],
)  # fmt: skip
def test_a_virtual_key_opens_the_routes_to_models(path: str) -> None:
    assert may_open("POST", path)
    assert not may_open("GET", path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/key/generate"),
        ("GET", "/toolgate/status"),
        ("POST", "/toolgate/prewarm"),
        ("DELETE", "/v1/models"),
        ("POST", "/v1/models"),
        ("POST", "/v1/chat/completions/../../key/list"),
    ],
)
def test_a_virtual_key_opens_no_other_route(method: str, path: str) -> None:
    assert not may_open(method, path)


def test_a_virtual_key_lists_models() -> None:
    for path in ("/models", "/v1/models", "/v1/models/tiny"):
        assert may_open("GET", path)
