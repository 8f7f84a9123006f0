"""Responses, errors, keys and callbacks of the gateway's own route."""

from __future__ import annotations

from typing import Any

import litellm
import pytest
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger

from tests.support.litellm.own_route import TICK, Gateway, chat, ours
from tests.support.litellm.router import foreign, use
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.api.shared.output import COMMENT
from toolgate_proxy.backend_client.event_stream import SseParser
from toolgate_proxy.litellm_host.deployments import own_route
from toolgate_proxy.litellm_host.deployments.selection import Selection
from toolgate_proxy.server.response_headers import own_headers


async def test_whole_response_has_length_type_and_call_id_headers(gateway: Gateway) -> None:
    response = await gateway.ask(chat())
    assert (response.status, response.text) == (200, "Hello there")
    assert response.json["model"] == "tiny"
    assert response.headers[b"content-type"] == b"application/json"
    assert int(response.headers[b"content-length"]) == len(response.bodies[0])
    assert response.headers[b"x-litellm-call-id"].decode() == response.context.call_id
    assert response.context.complete
    assert (response.context.prompt_tokens, response.context.model) == (11, "tiny")
    assert not gateway.host.passed


async def test_stream_has_events_usage_and_done(gateway: Gateway) -> None:
    body = chat(stream=True, stream_options={"include_usage": True})
    response = await gateway.ask(body)
    assert (response.status, response.text) == (200, "Hello there")
    assert response.headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert response.headers[b"cache-control"] == b"no-cache"
    assert b"content-length" not in response.headers
    assert response.events[-1]["usage"]["prompt_tokens"] == 11
    assert response.bodies[-1].endswith(b"data: [DONE]\n\n")
    last = [message.get("more_body", False) for message in response.messages[1:]]
    assert last == [True] * (len(last) - 1) + [False]
    assert response.context.complete


async def test_events_received_together_are_sent_together(gateway: Gateway) -> None:
    """The first bytes are the role and the first text."""
    gateway.backend.scripts["long"] = Script(("word " * 60,))
    response = await gateway.ask(chat("long", stream=True))
    assert len(SseParser().feed(response.bodies[0])) >= 2
    assert response.text == "word " * 60


@pytest.mark.parametrize("path", ["/engines/tiny/chat/completions", "/openai/deployments/tiny"
                                  "/chat/completions"])  # fmt: skip
async def test_model_in_the_path_overrides_the_body(gateway: Gateway, path: str) -> None:
    for model in (None, "tiny", "other"):
        response = await gateway.ask(chat(model=model), path=path)
        assert (response.status, response.json["model"]) == (200, "tiny")


@pytest.mark.parametrize("stream", [True, False])
async def test_error_before_the_response_has_its_status(gateway: Gateway, stream: bool) -> None:
    error = {"message": "Wait.", "code": "busy"}
    gateway.backend.scripts["busy"] = Script(("x",), error_status=503, error=error)
    for body, status, code in (
        (chat(temperature="hot", stream=stream), 400, "invalid_request"),
        (chat(no_parameter=1, stream=stream), 400, "unsupported_parameter"),
        (chat("busy", stream=stream), 503, "backend_unavailable"),
    ):
        response = await gateway.ask(body)
        assert (response.status, response.json["error"]["code"]) == (status, code)
        assert int(response.headers[b"content-length"]) == len(response.bodies[0])
        assert b"x-litellm-call-id" in response.headers


async def test_unexpected_exception_is_a_500_without_its_message(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Selection:
        raise KeyError("a secret")

    monkeypatch.setattr(own_route, "selection", fail)
    response = await gateway.ask(chat())
    assert (response.status, response.json["error"]["code"]) == (500, "internal_error")
    assert b"secret" not in response.bodies[0]


async def test_only_streams_get_keep_alive_comments(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On both routes."""
    gateway.backend.scripts["queued"] = Script(("Hello",), queued=TICK * 6)
    gateway.host.pause = TICK * 6
    use(monkeypatch, ours(gateway.backend), foreign("hosted"))
    for model in ("tiny", "hosted"):
        for stream in (True, False):
            response = await gateway.ask(chat("queued", model=model, stream=stream))
            body = b"".join(response.bodies)
            assert body.startswith(COMMENT) is stream
            assert (COMMENT in body) is stream


async def test_unknown_parameters_are_ignored_if_the_operator_wants_so(gateway: Gateway) -> None:
    assert (await gateway.ask(chat(num_ctx=4096))).status == 400
    gateway.configure(unknown_parameters="ignore")
    response = await gateway.ask(chat(num_ctx=4096, think=False, max_tokens=9))
    assert response.status == 200
    headers = own_headers(response.context)
    assert headers["x-toolgate-ignored-parameters"] == "num_ctx,think"
    assert gateway.backend.requests[-1].sampling.max_tokens == 9
    # Invalid values of known parameters are no unknown parameters.
    assert (await gateway.ask(chat(temperature="hot"))).status == 400


class Team(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    """A team's callback: refuses and changes requests by their content, and records events."""

    def __init__(self) -> None:
        super().__init__()
        self.models: list[Any] = []
        self.successes: list[Any] = []
        self.payloads: list[Any] = []
        self.failures: list[Any] = []

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        self.models.append(data.get("model"))
        last = data["messages"][-1]
        if last["content"] == "refused":
            raise HTTPException(429, {"error": "Not now."}, headers={"retry-after": "3"})
        if last["content"] == "changed":
            last["content"] = "hi"
        return data

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self.successes.append(response_obj)
        self.payloads.append(kwargs["standard_logging_object"])

    async def async_log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self.failures.append(kwargs["exception"])

    async def settled(self) -> None:
        await until(lambda: self.successes or self.failures)


@pytest.fixture
def team(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Team:
    made = Team()
    monkeypatch.setattr(litellm, "callbacks", [made])
    return made


@pytest.mark.parametrize("metadata", [b'{"project": "p"}', b"{", b"[1]", b"[" * 4_000, b"\xff"])
async def test_a_virtual_keys_request_is_attributed_by_headers(
    gateway: Gateway, team: Team, metadata: bytes
) -> None:
    gateway.add_key("sk-1", key_of("sk-1", tags=("web",)))
    noted = [(b"customer-id", b"acme"), (b"tags", b"a,b"), (b"session-id", b"session-1")]
    noted += [(b"spend-logs-metadata", metadata)]
    headers = [(b"x-litellm-" + name, value) for name, value in noted]
    assert (await gateway.ask(chat(), key="sk-1", headers=headers)).status == 200
    await team.settled()
    [payload] = team.payloads
    assert (payload["end_user"], payload["trace_id"]) == ("acme", "session-1")
    assert {"a", "b", "web"} <= {*payload["request_tags"]}


async def test_stream_left_by_its_client_is_logged_with_the_text_sent(
    gateway: Gateway, team: Team
) -> None:
    gateway.backend.scripts["hang"] = Script(("Hello there",), hang_after=2)
    await gateway.ask(chat("hang", stream=True), leave_after=0.3)
    await team.settled()
    [logged] = team.successes
    assert "Hello there".startswith(logged.choices[0].message.content)
    assert not team.failures


async def test_headers_of_a_rejecting_hook_are_sent(gateway: Gateway, team: Team) -> None:
    """LiteLLM also sends the headers of an HTTPException."""
    response = await gateway.ask(chat("refused"))
    assert (response.status, response.json["error"]["message"]) == (429, "Not now.")
    assert response.headers.get(b"retry-after") == b"3"


async def test_pre_call_hook_gets_the_model_of_the_path(gateway: Gateway, team: Team) -> None:
    for model in (None, "other"):
        await gateway.ask(chat(model=model), path="/engines/tiny/chat/completions")
    assert team.models == ["tiny", "tiny"]


async def test_failure_hook_may_replace_the_error(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM also sends the exception that the hook returns."""

    class Replacing(CustomLogger):  # type: ignore[misc]
        async def async_post_call_failure_hook(self, *args: Any, **more: Any) -> HTTPException:
            return HTTPException(418, {"error": "A teapot."})

    monkeypatch.setattr(litellm, "callbacks", [Replacing()])
    response = await gateway.ask(chat(temperature="hot"))
    assert response.status == 418
