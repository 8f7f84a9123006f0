"""What the own route passes on to LiteLLM and what it refuses, by whose authentication, and what
happens if a connection to the backend breaks."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import litellm
from litellm.proxy import proxy_server
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.pass_through_endpoints import llm_passthrough_endpoints
from starlette.requests import Request

from tests.proxy.server.kit import REFUSALS, STREAM
from tests.support.effort import rotating
from tests.support.litellm.own_route import CHAT, chat, ours
from tests.support.litellm.router import foreign, row, use
from tests.support.servers.fake_backend import KEY
from toolgate_proxy.server.absent_routes import OF_PROVIDER, PASSED_THROUGH
from toolgate_proxy.server.request_scope import own_headers

RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
COUNT = f"{MESSAGES}/count_tokens"
STORED = f"{RESPONSES}/resp_xyz"
OTHERS = [
    (CHAT, "POST", json.dumps(chat(model="hosted", new_parameter=[1])).encode()),
    (CHAT, "POST", json.dumps(chat(model="unheard of")).encode()),
    (RESPONSES, "POST", b'{"model": "hosted", "input": "hi"}'),
    (MESSAGES, "POST", b'{"model": "hosted", "max_tokens": 5, "messages": []}'),
    (COUNT, "POST", b'{"model": "hosted", "messages": []}'),
    ("/model/metrics", "POST", b"anything"),
    ("/model/info", "GET", b""),
    (CHAT, "GET", b""),
    (STORED, "GET", b""),
]


async def test_other_requests_are_forwarded_to_litellm_unchanged(gateway, monkeypatch):
    use(monkeypatch, ours(gateway.backend), foreign("hosted"))
    for path, method, body in OTHERS:
        response = await gateway.ask(body, path=path, method=method)
        assert response.status == 299, path
        passed = gateway.host.passed.pop()
        assert (passed.path, passed.body) == (path, body)
        assert passed.context is passed.carried is response.context
        assert not gateway.host.passed
    own = f"{RESPONSES}/resp_{'0a' * 16}"
    assert (await gateway.ask(b"", path=own, method="GET")).status == 404


async def test_unsupported_model_is_forwarded_to_litellm_after_the_checks(gateway, monkeypatch):
    use(monkeypatch, ours(gateway.backend), default_litellm_params={"mock_response": "x"})
    assert (await gateway.ask(chat())).status == 299
    for name, value in (("mock_response", "Hello"), ("no_parameter", 1)):
        refused = await gateway.ask(chat(**{name: value}))
        assert (refused.status, refused.json["error"]["param"]) == (400, name)
    assert len(gateway.host.passed) == 1


async def test_responses_of_our_models_never_come_from_litellm(gateway, monkeypatch):
    """Its bridge marks a call as complete that the maximum number of tokens cut."""
    mixed = (ours(gateway.backend, "mixed"), foreign("mixed"))
    use(monkeypatch, ours(gateway.backend), *mixed, default_litellm_params={"mock_response": "x"})
    unsupported = 400, "unsupported_parameter"
    for model, status, code, reason in (
        ("tiny", *unsupported, "`mock_response` in default_litellm_params"),
        ("mixed", *unsupported, "deployments of another provider"),
        ("unheard of", 404, "model_not_found", "does not exist"),
        (None, 400, "invalid_request", "model"),
    ):
        for path in (RESPONSES, "/responses", "/openai/v1/responses", "/v1/responses/"):
            refused = await gateway.ask({"model": model, "input": "hi"}, path=path)
            error = refused.json["error"]
            assert (refused.status, error["param"], error["code"]) == (status, "model", code)
            assert reason in error["message"]
    assert not gateway.host.passed


async def test_control_field_is_rejected_on_every_inference_path(gateway):
    for path in (CHAT, RESPONSES, MESSAGES, "/v1/embeddings", "/v1/completions"):
        response = await gateway.ask({"model": "tiny", "api_base": "http://x"}, path=path)
        assert (response.status, response.json["error"]["param"]) == (400, "api_base")
    assert not gateway.host.passed


async def test_other_custom_auth_may_read_the_request(gateway, monkeypatch):
    seen = []

    async def custom_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
        seen.append((api_key, await request.json(), await request.body(), request.url.path))
        return UserAPIKeyAuth(api_key=api_key)

    monkeypatch.setattr(proxy_server, "user_custom_auth", custom_auth)
    body = chat()
    response = await gateway.ask(body, key="theirs")
    assert (response.status, response.text) == (200, "Hello there")
    assert seen == [("theirs", body, json.dumps(body).encode(), CHAT)]
    assert response.context.caller.key is None


async def test_other_custom_auth_gets_the_model_of_the_path(gateway, monkeypatch):
    """LiteLLM checks the caller's models itself, where it is configured to."""

    async def custom_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
        return UserAPIKeyAuth(api_key=api_key, models=["allowed"])

    use(monkeypatch, ours(gateway.backend), ours(gateway.backend, "allowed"))
    monkeypatch.setattr(proxy_server, "user_custom_auth", custom_auth)
    checks = {"custom_auth_run_common_checks": True}
    monkeypatch.setattr(proxy_server, "general_settings", checks)
    monkeypatch.setattr(litellm, "enable_post_custom_auth_checks", True, raising=False)
    assert (await gateway.ask(chat(model="allowed"), key="theirs")).status == 200
    for path, model in ((CHAT, "tiny"), ("/engines/tiny/chat/completions", "allowed")):
        refused = await gateway.ask(chat(model=model), path=path, key="theirs")
        assert refused.status in (401, 403), path
    assert len(gateway.backend.requests) == 1


async def test_addresses_that_litellm_does_not_allow_are_refused(gateway, monkeypatch):
    forwarded = [(b"x-forwarded-for", b"10.0.0.9")]
    for settings, allowed in (
        ({"allowed_ips": ["10.0.0.1"]}, True),
        ({"allowed_ips": ["10.0.0.9"]}, False),
        ({"allowed_ips": []}, False),
        ({"allowed_ips": ["10.0.0.9"], "use_x_forwarded_for": True}, True),
    ):
        monkeypatch.setattr(proxy_server, "general_settings", settings)
        for path, method, body in (
            (CHAT, "POST", chat()),
            (RESPONSES, "POST", {"model": "tiny", "input": "hi"}),
            ("/v1/models", "GET", {}),
            ("/toolgate/status", "GET", {}),
        ):
            response = await gateway.ask(body, path=path, method=method, headers=[*forwarded])
            assert (response.status == 403) != allowed, (settings, path, response.bodies)
    monkeypatch.setattr(proxy_server, "general_settings", {"allowed_ips": []})
    probe = await gateway.ask(b"", path="/toolgate/ready", method="GET", key=None)
    assert probe.status != 403


@rotating("field", ["team_id", "api_key", "user_id"], one_in=3)
async def test_stored_responses_belong_to_the_caller_of_another_custom_auth(
    gateway, monkeypatch, field
):
    """The key may be anywhere in the request: here it is in a cookie."""

    async def custom_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
        user = request.cookies["user"]
        if user == "nobody":
            raise ValueError("nobody")
        assert await request.body() is not None
        return UserAPIKeyAuth(**{field: user})

    monkeypatch.setattr(proxy_server, "user_custom_auth", custom_auth)

    async def send(method, path, user, body=b""):
        headers = [(b"cookie", f"user={user}".encode())]
        return await gateway.ask(body, path=path, method=method, headers=headers, key=None)

    made = await send("POST", RESPONSES, "one", {"model": "tiny", "input": "hi"})
    path = f"{RESPONSES}/{made.json['id']}"
    assert (await send("GET", path, "one")).json == made.json
    assert (await send("GET", path, "other")).status == 404
    assert (await send("GET", path, "nobody")).status == 401
    assert (await send("DELETE", path, "other")).status == 404
    assert (await send("DELETE", path, "one")).status == 200


async def test_litellms_authentication_accepts_its_master_key(gateway, monkeypatch):
    monkeypatch.setattr(proxy_server, "user_custom_auth", None)
    assert (await gateway.ask(chat())).text == "Hello there"
    refused = await gateway.ask(chat(), key="sk-wrong")
    assert refused.status >= 400
    assert refused.json["error"]["message"]
    assert len(gateway.backend.requests) == 1


@dataclass
class Relay:
    """A connection to the backend that can break when a request is sent on it."""

    url: str = ""
    breaks: int = 0
    """Number of requests to generate on whose arrival the connection is closed."""


@asynccontextmanager
async def relay_to(url):
    target, relay = httpx.URL(url), Relay()

    async def connect(reader, writer):
        from_backend, to_backend = await asyncio.open_connection(target.host, target.port)

        async def answers():
            while data := await from_backend.read(65536):
                writer.write(data)
            writer.close()

        answering = asyncio.create_task(answers())
        while data := await reader.read(65536):
            if relay.breaks and b"x-session-id" in data:
                relay.breaks -= 1
                break
            to_backend.write(data)
        to_backend.close()
        writer.close()
        await answering

    async with await asyncio.start_server(connect, "127.0.0.1", 0) as server:
        relay.url = "http://{}:{}".format(*server.sockets[0].getsockname())
        yield relay


@STREAM
async def test_a_request_on_a_closed_connection_is_sent_again(gateway, monkeypatch, stream):
    """A backend closes idle connections. The only backend of the model is asked once more."""
    gateway.configure(keepalive_seconds=0)
    async with relay_to(gateway.backend.url) as relay:
        use(monkeypatch, row("a", group="tiny", api_base=relay.url, api_key=KEY))
        assert (await gateway.ask(chat(stream=stream))).status == 200
        relay.breaks = 1
        response = await gateway.ask(chat(stream=stream))
        assert (response.status, response.text) == (200, "Hello there")
        relay.breaks = 2
        response = await gateway.ask(chat(stream=stream))
        assert (response.status, response.json["error"]["code"]) == (503, "backend_unavailable")


@STREAM
async def test_a_backend_that_can_not_be_used_is_replaced_by_others(gateway, monkeypatch, stream):
    """One that refuses connections is out of the rotation then; the other one has another key."""
    gateway.configure(keepalive_seconds=0)
    here = {"api_base": gateway.backend.url, "api_key": KEY, "weight": 0}
    async with relay_to(gateway.backend.url) as relay:
        async with relay_to(gateway.backend.url) as closed:
            gone = closed.url
        rows = []
        for name, url, key in (("gone", gone, KEY), ("locked", relay.url, "another-key")):
            first = {"api_base": url, "api_key": key, "weight": 1}
            rows += [row(f"{name}-1", group=name, **first), row(f"{name}-2", group=name, **here)]
            rows += [row(f"{name}-alone", group=f"{name}-alone", **first)]
        use(monkeypatch, *rows)
        for name in ("gone", "locked"):
            response = await gateway.ask(chat(model=name, stream=stream))
            assert (response.status, response.text) == (200, "Hello there")
            assert own_headers(response.context)["x-litellm-model-id"] == f"{name}-2"
            response = await gateway.ask(chat(model=f"{name}-alone", stream=stream))
            assert (response.status, response.json["error"]["code"]) == (503, "backend_unavailable")
    known = gateway.here.deployments._deployments.values()
    [state] = {id(each.state): each.state for each in known if each.url == gone}.values()
    assert not state.up
    assert state.error == "connection failed: Connection refused"


async def test_a_provider_is_reached_if_it_is_named_or_that_of_a_model(gateway, monkeypatch):
    for method, path, provider, setting in REFUSALS["providers"]:
        response = await gateway.ask({}, path=path, method=method)
        error = response.json["error"]
        assert (response.status, error["code"]) == (404, "route_not_found"), path
        assert repr(provider) in error["message"]
        assert f"`{setting}`" in error["message"]
    assert not gateway.host.passed
    use(monkeypatch, ours(gateway.backend), foreign("hosted"))
    for path in ("/v1/files", "/openai/v1/files"):
        await gateway.ask({}, path=path, method="GET")
    assert [each.path for each in gateway.host.passed] == ["/v1/files", "/openai/v1/files"]
    form = b'--x\r\nContent-Disposition: form-data; name="custom_llm_provider"\r\n\r\nazure'
    refused = [
        await gateway.ask({}, path="/anthropic/v1/messages"),
        await gateway.ask({}, path="/v1/files", method="GET", query="custom_llm_provider=azure"),
        await gateway.ask({}, path="/v1/files", method="GET", query="provider=azure"),
        await gateway.ask({}, path="/v1/files", headers=[(b"custom-llm-provider", b"azure")]),
        await gateway.ask({"custom_llm_provider": "azure"}, path="/v1/batches"),
        await gateway.ask(form, path="/v1/files"),
    ]
    assert [each.status for each in refused] == [404] * len(refused)
    assert len(gateway.host.passed) == 2


async def test_a_provider_of_another_section_or_target_is_reached(gateway, monkeypatch):
    config = {"files_settings": [{"custom_llm_provider": "azure", "api_key": "k"}]}
    monkeypatch.setattr(proxy_server.proxy_config, "get_config_state", lambda: config)
    endpoints = {"pass_through_endpoints": [{"path": "/cohere/v1/x", "target": "http://x"}]}
    monkeypatch.setattr(proxy_server, "general_settings", endpoints)
    for path, query, status in (
        ("/v1/files", "", 404),
        ("/v1/files", "provider=azure", 299),
        ("/cohere/v1/x", "", 299),
        ("/cohere/v1/y", "", 404),
    ):
        method = "GET" if "files" in path else "POST"
        response = await gateway.ask({}, path=path, method=method, query=query)
        assert response.status == status, (path, query)


def test_all_routes_that_pass_requests_through_are_known():
    """LiteLLM adds them to its app when the first of them is requested."""
    suffix = "/{endpoint:path}"
    paths = {route.path for route in llm_passthrough_endpoints.router.routes}
    through = {path.replace(suffix, "/x") for path in paths if path.endswith(suffix)}
    assert {"/openai/x", "/anthropic/x"} <= through
    assert not [path for path in through if not PASSED_THROUGH.fullmatch(path)]
    known = (CHAT, RESPONSES, "/v1/models", "/openai/deployments/tiny/chat/completions")
    for path in (*known, "/openai/v1/responses", "/cursor/models", "/v1/embeddings", "/ui/files/x",
                 "/vector_store/list"):  # fmt: skip
        assert not OF_PROVIDER.fullmatch(path)
        assert not PASSED_THROUGH.fullmatch(path)
