"""Our own route in front of a stub of LiteLLM's app: which requests it answers, and how."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import litellm
import pytest
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server
from litellm.proxy._types import UserAPIKeyAuth
from pydantic import SecretStr
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from tests.support.fake_backend import KEY, FakeBackend
from tests.support.gateway_process import KEY_SECRET
from tests.support.litellm_router import Row, foreign, reset_litellm, row, use
from tests.support.script import Script
from tests.support.virtual_keys import key_of
from toolgate_core.wire import ChatPrompt
from toolgate_proxy.backend_client.sse import SseParser
from toolgate_proxy.context import RequestContext, context_of
from toolgate_proxy.keys.hashing import new_key
from toolgate_proxy.keys.key import Key
from toolgate_proxy.litellm_host import auth
from toolgate_proxy.litellm_host.context import current
from toolgate_proxy.litellm_host.deployments.model_route import ModelRoutes
from toolgate_proxy.litellm_host.deployments.selection import Selection
from toolgate_proxy.server import exchange, own_route
from toolgate_proxy.server.connection import COMMENT
from toolgate_proxy.server.own_route import OwnRoute
from toolgate_proxy.settings import Settings
from toolgate_proxy.state import GatewayState

MASTER = "sk-master"
CHAT = "/v1/chat/completions"
TICK = 0.05
Header = tuple[bytes, bytes]


@dataclass
class Passed:
    """A request that LiteLLM's app got."""

    path: str
    body: bytes
    context: RequestContext
    carried: RequestContext


@dataclass
class Host:
    """LiteLLM's app: answers everything with 299, after a pause."""

    passed: list[Passed] = field(default_factory=list)
    pause: float = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", scope["method"] == "POST"
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.passed.append(Passed(scope["path"], body, context_of(scope), current()))
        await asyncio.sleep(self.pause)
        status = 200 if self.pause else 299
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"data: litellm\n\n"})


@dataclass
class Response:
    messages: list[Message]
    context: RequestContext

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages[1:]]

    @property
    def json(self) -> Any:
        return json.loads(b"".join(self.bodies))

    @property
    def events(self) -> list[Any]:
        payloads = SseParser().feed(b"".join(self.bodies))
        return [json.loads(data) for data in payloads if data != b"[DONE]"]

    @property
    def text(self) -> str:
        if self.headers[b"content-type"] == b"application/json":
            return str(self.json["choices"][0]["message"]["content"])
        deltas = [choice["delta"] for event in self.events for choice in event["choices"]]
        return "".join(delta.get("content") or "" for delta in deltas)


class Gateway:
    def __init__(self, here: GatewayState, backend: FakeBackend) -> None:
        self.here = here
        self.backend = backend
        self.host = Host()
        self._app = OwnRoute(self.host)

    def add_key(self, sent: str, key: Key) -> None:
        assert self.here.key_sync is not None
        key = key.model_copy(update={"secrets": key_of(sent).secrets})
        self.here.key_sync.key_cache.replace([], [key])

    async def ask(
        self,
        body: object,
        *,
        path: str = CHAT,
        key: str | None = MASTER,
        headers: Sequence[Header] = (),
        method: str = "POST",
        leave_after: float | None = None,
    ) -> Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        unread: list[Message] = [{"type": "http.request", "body": data, "more_body": False}]
        sent: list[Message] = []

        async def receive() -> Message:
            if unread:
                return unread.pop()
            if leave_after is None:
                await asyncio.Event().wait()
            await asyncio.sleep(leave_after or 0)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        scope: Scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(),
            "root_path": "", "query_string": b"", "scheme": "http", "server": ("x", 80),
            "client": ("10.0.0.1", 1), "headers": list(headers),
        }  # fmt: skip
        if key is not None:
            scope["headers"].append((b"authorization", f"Bearer {key}".encode()))
        async with asyncio.timeout(20):
            await self._app(scope, receive, send)
        return Response(sent, context_of(scope))


@pytest.fixture
async def gate(backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateway]:
    reset_litellm(monkeypatch)
    settings = Settings(
        backend_url=backend.url,
        backend_key=SecretStr(KEY),
        key_secret=SecretStr(KEY_SECRET),
        redis_url=None,
        limits_without_redis="open",
        keepalive_seconds=TICK,
        route="auto",
    )
    here = GatewayState(settings)
    selection, known = Selection(here.deployments, here.affinity), ModelRoutes(settings)
    for module in (auth, exchange, own_route):
        monkeypatch.setattr(module, "service", lambda: here)
    monkeypatch.setattr(exchange, "selection", lambda: selection)
    monkeypatch.setattr(own_route, "model_routes", lambda: known)
    monkeypatch.setattr(proxy_server, "master_key", MASTER)
    monkeypatch.setattr(proxy_server, "user_custom_auth", auth.authenticate)
    use(monkeypatch, ours(backend))
    backend.scripts["hi"] = Script(("Hello there",))
    yield Gateway(here, backend)
    await here.aclose()


def ours(backend: FakeBackend, group: str = "tiny", **params: Any) -> Row:
    return row("a", group=group, api_base=backend.url, api_key=KEY, **params)


def chat(content: str = "hi", model: str | None = "tiny", **params: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": content}], **params}
    return body if model is None else {"model": model, **body}


def asked(backend: FakeBackend) -> list[str]:
    """The last message of each request that came to the backend."""
    prompts = [request.prompt for request in backend.requests]
    assert all(isinstance(prompt, ChatPrompt) for prompt in prompts)
    return [prompt.messages[-1]["content"] for prompt in prompts if isinstance(prompt, ChatPrompt)]


# --- responses ------------------------------------------------------------------------------------


async def test_a_whole_response_has_its_length_type_and_call_id(gate: Gateway) -> None:
    response = await gate.ask(chat())
    assert (response.status, response.text) == (200, "Hello there")
    assert response.json["model"] == "tiny"
    assert response.headers[b"content-type"] == b"application/json"
    assert int(response.headers[b"content-length"]) == len(response.bodies[0])
    assert response.headers[b"x-litellm-call-id"].decode() == response.context.call_id
    assert response.context.complete
    assert (response.context.prompt_tokens, response.context.model) == (11, "tiny")
    assert not gate.host.passed


async def test_a_stream_has_events_usage_and_done(gate: Gateway) -> None:
    body = chat(stream=True, stream_options={"include_usage": True})
    response = await gate.ask(body)
    assert (response.status, response.text) == (200, "Hello there")
    assert response.headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert response.headers[b"cache-control"] == b"no-cache"
    assert b"content-length" not in response.headers
    assert response.events[-1]["usage"]["prompt_tokens"] == 11
    assert response.bodies[-1].endswith(b"data: [DONE]\n\n")
    last = [message.get("more_body", False) for message in response.messages[1:]]
    assert last == [True] * (len(last) - 1) + [False]
    assert response.context.complete


async def test_events_that_arrived_together_are_sent_together(gate: Gateway) -> None:
    """The first bytes are the role and the first text."""
    gate.backend.scripts["long"] = Script(("word " * 60,))
    response = await gate.ask(chat("long", stream=True))
    assert len(SseParser().feed(response.bodies[0])) >= 2
    assert response.text == "word " * 60


@pytest.mark.parametrize("path", ["/engines/tiny/chat/completions", "/openai/deployments/tiny"
                                  "/chat/completions"])  # fmt: skip
async def test_the_model_of_a_path_goes_before_the_bodys(gate: Gateway, path: str) -> None:
    for model in (None, "tiny", "other"):
        response = await gate.ask(chat(model=model), path=path)
        assert (response.status, response.json["model"]) == (200, "tiny")


async def test_a_deployments_defaults_fill_what_the_request_leaves_out(
    gate: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = {"temperature": 0.125, "max_tokens": 7, "extra_body": {"top_k": 3}}
    use(monkeypatch, ours(gate.backend, **params))
    assert (await gate.ask(chat(temperature=0.5))).status == 200
    sampling = gate.backend.requests[-1].sampling
    assert (sampling.temperature, sampling.max_tokens, sampling.top_k) == (0.5, 7, 3)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_before_the_response_has_its_status(gate: Gateway, stream: bool) -> None:
    error = {"message": "Wait.", "code": "busy"}
    gate.backend.scripts["busy"] = Script(("x",), error_status=503, error=error)
    for body, status, code in (
        (chat(temperature="hot", stream=stream), 400, "invalid_request"),
        (chat(no_parameter=1, stream=stream), 400, "unsupported_parameter"),
        (chat("busy", stream=stream), 503, "backend_unavailable"),
    ):
        response = await gate.ask(body)
        assert (response.status, response.json["error"]["code"]) == (status, code)
        assert int(response.headers[b"content-length"]) == len(response.bodies[0])
        assert b"x-litellm-call-id" in response.headers


async def test_an_error_in_a_stream_is_its_last_event(gate: Gateway) -> None:
    gate.backend.scripts["breaks"] = Script(("Hello there you",), error_after=3)
    response = await gate.ask(chat("breaks", stream=True))
    assert response.status == 200
    assert response.events[-1]["error"]["code"] == "enforcement_failed"
    assert b"[DONE]" not in b"".join(response.bodies)
    assert not response.messages[-1]["more_body"]
    assert response.context.failed


async def test_a_bug_of_the_gateway_is_a_500_without_its_message(
    gate: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Selection:
        raise KeyError("a secret")

    monkeypatch.setattr(exchange, "selection", fail)
    response = await gate.ask(chat())
    assert (response.status, response.json["error"]["code"]) == (500, "internal_error")
    assert b"secret" not in response.bodies[0]


@pytest.mark.parametrize("body", [b"{", b"[]", b""])
async def test_a_body_that_is_no_json_object_is_refused(gate: Gateway, body: bytes) -> None:
    response = await gate.ask(body)
    assert (response.status, response.json["error"]["type"]) == (400, "invalid_request_error")


# --- clients that leave ---------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
async def test_a_disconnect_ends_the_backends_work(gate: Gateway, stream: bool) -> None:
    gate.backend.scripts["hang"] = Script(("Hello there",), hang_after=2)
    response = await gate.ask(chat("hang", stream=stream), leave_after=0.3)
    assert await gate.backend.idle_within(2.0)
    assert not response.context.complete
    if not stream:
        assert response.messages == []


# --- keys -----------------------------------------------------------------------------------------


async def test_a_wrong_key_is_refused_before_the_body_is_read(gate: Gateway) -> None:
    for key in ("sk-wrong", None):
        response = await gate.ask(b"{not even JSON", key=key)
        assert (response.status, response.json["error"]["code"]) == (401, "invalid_api_key")


async def test_a_virtual_key_may_use_its_models_only(gate: Gateway) -> None:
    sent = new_key()
    gate.add_key(sent, key_of(sent, alias="mine", models=("other",)))
    refused = await gate.ask(chat(), key=sent)
    assert (refused.status, refused.json["error"]["code"]) == (403, "permission_denied")
    gate.add_key(sent, key_of(sent, alias="mine", models=("tiny",)))
    allowed = await gate.ask(chat(), key=sent)
    assert allowed.status == 200
    assert allowed.context.key is not None
    assert allowed.context.key.alias == "mine"


async def test_a_keys_limits_hold(gate: Gateway) -> None:
    sent = new_key()
    gate.add_key(sent, key_of(sent, rpm=1))
    first, second = [await gate.ask(chat(), key=sent) for _ in range(2)]
    assert (first.status, second.status) == (200, 429)
    assert second.json["error"]["code"] == "rate_limit_exceeded"
    assert int(second.headers[b"retry-after"]) > 0
    assert first.context.on_settle is not None
    assert second.context.on_settle is None


# --- what is passed on ----------------------------------------------------------------------------


async def test_other_requests_go_to_litellm_unchanged(
    gate: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, ours(gate.backend), foreign("hosted"))
    for path, method, body in (
        (CHAT, "POST", json.dumps(chat(model="hosted", new_parameter=[1])).encode()),
        (CHAT, "POST", json.dumps(chat(model="unheard of")).encode()),
        ("/v1/responses", "POST", b'{"model": "tiny", "input": "hi"}'),
        ("/v1/messages", "POST", b'{"model": "tiny", "max_tokens": 5, "messages": []}'),
        ("/key/generate", "POST", b"anything"),
        ("/v1/models", "GET", b""),
        (CHAT, "GET", b""),
    ):
        response = await gate.ask(body, path=path, method=method)
        assert response.status == 299
        passed = gate.host.passed.pop()
        assert (passed.path, passed.body) == (path, body if method == "POST" else b"")
        assert passed.context is passed.carried is response.context


async def test_a_model_with_a_reason_goes_to_litellm_after_the_checks(
    gate: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, ours(gate.backend), fallbacks=[{"*": ["tiny"]}])
    assert (await gate.ask(chat())).status == 299
    refused = await gate.ask(chat(mock_response="Hello"))
    assert (refused.status, refused.json["error"]["param"]) == (400, "mock_response")
    unknown = await gate.ask(chat(no_parameter=1))
    assert (unknown.status, unknown.json["error"]["param"]) == (400, "no_parameter")
    assert len(gate.host.passed) == 1


async def test_a_control_field_is_refused_on_every_path_for_models(gate: Gateway) -> None:
    for path in (CHAT, "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/completions"):
        response = await gate.ask({"model": "tiny", "api_base": "http://x"}, path=path)
        assert (response.status, response.json["error"]["param"]) == (400, "api_base")
    assert not gate.host.passed


async def test_only_streams_get_comments_while_nothing_comes(
    gate: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On both ways."""
    gate.backend.scripts["queued"] = Script(("Hello",), queued=TICK * 6)
    gate.host.pause = TICK * 6
    use(monkeypatch, ours(gate.backend), foreign("hosted"))
    for model in ("tiny", "hosted"):
        for stream in (True, False):
            response = await gate.ask(chat("queued", model=model, stream=stream))
            body = b"".join(response.bodies)
            assert body.startswith(COMMENT) is stream
            assert (COMMENT in body) is stream


async def test_an_error_after_a_comment_is_an_event(gate: Gateway) -> None:
    error = Script(("Hello",), queued=TICK * 6, error_after=0)
    gate.backend.scripts["late"] = error
    response = await gate.ask(chat("late", stream=True))
    assert response.status == 200
    assert response.bodies[0] == COMMENT
    assert [event["error"]["code"] for event in response.events] == ["enforcement_failed"]
    assert response.context.failed


# --- LiteLLM's callbacks and authentication -------------------------------------------------------


class Team(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    """A team's callback: refuses and changes requests by their content, and records events."""

    def __init__(self) -> None:
        super().__init__()
        self.models: list[Any] = []
        self.successes: list[Any] = []
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

    async def async_log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self.failures.append(kwargs["exception"])

    async def settled(self) -> None:
        async with asyncio.timeout(5):
            while not (self.successes or self.failures):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture
def team(gate: Gateway, monkeypatch: pytest.MonkeyPatch) -> Team:
    made = Team()
    monkeypatch.setattr(litellm, "callbacks", [made])
    return made


@pytest.mark.parametrize("stream", [True, False])
async def test_a_response_is_logged_once_as_it_was(gate: Gateway, team: Team, stream: bool) -> None:
    response = await gate.ask(chat(stream=stream))
    assert (response.status, response.text) == (200, "Hello there")
    await team.settled()
    await asyncio.sleep(0.05)
    [logged] = team.successes
    assert logged.choices[0].message.content == "Hello there"
    assert logged.usage.prompt_tokens == 11
    assert not team.failures


async def test_a_stream_that_its_client_leaves_is_logged_with_what_was_sent(
    gate: Gateway, team: Team
) -> None:
    gate.backend.scripts["hang"] = Script(("Hello there",), hang_after=2)
    await gate.ask(chat("hang", stream=True), leave_after=0.3)
    await team.settled()
    [logged] = team.successes
    assert "Hello there".startswith(logged.choices[0].message.content)
    assert not team.failures


@pytest.mark.parametrize("body", [chat("breaks"), chat(temperature="hot")], ids=["late", "early"])
async def test_a_failure_is_logged_once(gate: Gateway, team: Team, body: Row) -> None:
    gate.backend.scripts["breaks"] = Script(("x",), error_after=0)
    response = await gate.ask(body)
    await team.settled()
    await asyncio.sleep(0.05)
    [failure] = team.failures
    assert failure.status_code == response.status >= 400
    assert not team.successes


async def test_a_hook_may_change_a_request(gate: Gateway, team: Team) -> None:
    assert (await gate.ask(chat("changed"))).text == "Hello there"
    assert asked(gate.backend) == ["hi"]


async def test_a_hook_may_refuse_a_request(gate: Gateway, team: Team) -> None:
    response = await gate.ask(chat("refused"))
    assert (response.status, response.json["error"]["message"]) == (429, "Not now.")
    assert gate.backend.requests == []


async def test_the_headers_of_a_hooks_refusal_are_sent(gate: Gateway, team: Team) -> None:
    """As LiteLLM sends them."""
    response = await gate.ask(chat("refused"))
    assert response.headers.get(b"retry-after") == b"3"


async def test_a_hook_sees_the_model_that_the_path_names(gate: Gateway, team: Team) -> None:
    for model in (None, "other"):
        await gate.ask(chat(model=model), path="/engines/tiny/chat/completions")
    assert team.models == ["tiny", "tiny"]


async def test_a_hook_after_a_failure_may_replace_the_error(
    gate: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM answers with the exception that the hook returns; such requests may go its way."""

    class Replacing(CustomLogger):  # type: ignore[misc]
        async def async_post_call_failure_hook(self, *args: Any, **more: Any) -> HTTPException:
            return HTTPException(418, {"error": "A teapot."})

    monkeypatch.setattr(litellm, "callbacks", [Replacing()])
    response = await gate.ask(chat(temperature="hot"))
    assert response.status in (418, 299)


async def test_another_custom_auth_may_read_the_request(
    gate: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    async def custom_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
        seen.append((api_key, await request.json(), await request.body(), request.url.path))
        return UserAPIKeyAuth(api_key=api_key)

    monkeypatch.setattr(proxy_server, "user_custom_auth", custom_auth)
    body = chat()
    response = await gate.ask(body, key="theirs")
    assert (response.status, response.text) == (200, "Hello there")
    assert seen == [("theirs", body, json.dumps(body).encode(), CHAT)]
    assert response.context.key is None


async def test_another_custom_auth_is_asked_about_the_model_of_the_path(
    gate: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM checks the caller's models itself, where it is configured to."""

    async def custom_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
        return UserAPIKeyAuth(api_key=api_key, models=["allowed"])

    use(monkeypatch, ours(gate.backend), ours(gate.backend, "allowed"))
    monkeypatch.setattr(proxy_server, "user_custom_auth", custom_auth)
    checks = {"custom_auth_run_common_checks": True}
    monkeypatch.setattr(proxy_server, "general_settings", checks)
    monkeypatch.setattr(litellm, "enable_post_custom_auth_checks", True, raising=False)
    allowed = await gate.ask(chat(model="allowed"), key="theirs")
    assert allowed.status == 200
    for path, model in ((CHAT, "tiny"), ("/engines/tiny/chat/completions", "allowed")):
        refused = await gate.ask(chat(model=model), path=path, key="theirs")
        assert refused.status in (401, 403), path
    assert len(gate.backend.requests) == 1


async def test_litellms_own_authentication_lets_its_master_key_in(
    gate: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_server, "user_custom_auth", None)
    assert (await gate.ask(chat())).text == "Hello there"
    refused = await gate.ask(chat(), key="sk-wrong")
    assert refused.status >= 400
    assert refused.json["error"]["message"]
    assert len(gate.backend.requests) == 1


async def test_litellms_router_may_choose_the_deployment(
    gate: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its limits: `enforce_model_rate_limits` counts requests of a deployment."""
    settings: Row = {"optional_pre_call_checks": ["enforce_model_rate_limits"]}
    use(monkeypatch, ours(gate.backend, rpm=2), **settings)
    statuses = [(await gate.ask(chat())).status for _ in range(3)]
    assert statuses == [200, 200, 429]
