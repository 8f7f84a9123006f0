"""Routes that need a key, that no model of ours serves, and that do not exist."""

import re
import socket
import threading
from contextlib import contextmanager

import pytest
import websockets
import yaml
from fastapi.routing import APIRoute

from tests.proxy.process.kit import RESPONSES, ROWS
from tests.support.effort import SAMPLE, repeats
from tests.support.servers.gateway_process import BROWSER_ORIGIN, MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from toolgate_proxy.keys.access import ROUTES
from toolgate_proxy.ops.admin.routes import router
from toolgate_proxy.server.authorization import HEALTH
from toolgate_proxy.server.launcher import Route, make_config

PARAMETER = re.compile(r"\{[^}]*\}")
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})


def http_routes():
    """Method and path of every HTTP route, with `x` for parameters. A mount and a feature that is
    loaded on the first request count as a route that is read."""
    from litellm.proxy._lazy_features import LAZY_FEATURES
    from litellm.proxy.proxy_server import app

    found = {
        (method, route.path)
        for route in app.routes
        for method in METHODS & (getattr(route, "methods", None) or {"GET"})
        if hasattr(route, "path")
    }
    for feature in LAZY_FEATURES:
        paths = [*feature.path_prefixes, *(f"/x{each}" for each in feature.path_suffixes)]
        found |= {("GET", path) for path in paths} | {("POST", path) for path in paths}
    return sorted({(method, PARAMETER.sub("x", path) or "/") for method, path in found})


def routes_without_key():
    """The routes of `http_routes` whose handlers do not depend on LiteLLM's authentication."""
    from litellm.proxy.proxy_server import app

    from toolgate_proxy.litellm_host.app import checks_key

    return sorted(
        (method, PARAMETER.sub("x", route.path) or "/")
        for route in app.routes
        for method in METHODS & (getattr(route, "methods", None) or {"GET"})
        if hasattr(route, "path")
        if not checks_key(route)
    )


def websocket_paths():
    from litellm.proxy.proxy_server import app

    sockets = [route for route in app.routes if "WebSocket" in type(route).__name__]
    return sorted(PARAMETER.sub("x", route.path) for route in sockets)


FORMS = {"/v1/audio/transcriptions": "file", "/v1/images/edits": "image"}
"""Field of the file, by path."""


async def test_operations_that_our_models_do_not_support_are_refused(http, backend):
    answers = [
        *[
            await http.post(path, json={"model": "tiny", **body})
            for path, body in ROWS["operations"].items()
        ],
        *[await sent_as_form(http, path, field) for path, field in FORMS.items()],
    ]
    for response in answers:
        assert response.status_code == 400, (response.url, response.text)
        error = response.json()["error"]
        found = error["type"], error["param"], error["code"]
        assert found == ("invalid_request_error", "model", "invalid_request")
        assert "support" in error["message"]
        assert error["message"].endswith("Use chat completions, or a model of another provider.")
    for path, body in ROWS["operations of providers"].items():
        response = await http.post(path, json={"model": "tiny", **body})
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (404, "route_not_found"), path
        assert "nothing was sent" in error["message"]
    assert not backend.requests


async def sent_as_form(http, path, field):
    files = {field: ("a.png", b"\x89PNG\r\n\x1a\n", "image/png")}
    return await http.post(path, data={"model": "tiny", "prompt": "x"}, files=files)


async def test_embeddings_with_a_virtual_key_name_the_model_and_the_operation(gateway, key):
    async with http_client(gateway, key, timeout=60) as http:
        refused = await http.post("/v1/embeddings", json={"model": "tiny", "input": "x"})
        assert refused.status_code == 400
        assert "The model 'tiny' does not support embeddings." in refused.text
        forbidden = await http.post("/v1/embeddings", json={"model": "down", "input": "x"})
        assert forbidden.status_code == 403, "the key's models are checked first"


@pytest.mark.parametrize(("path", "key", "status", "words"), ROWS["googles"])
async def test_googles_api_is_refused(http, path, key, status, words):
    body = {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
    headers = {} if key is None else bearer(key)
    response = await http.post(f"/v1beta/models/{path}", json=body, headers=headers)
    assert response.status_code == status
    assert words in response.json()["error"]["message"]


@pytest.mark.parametrize(("method", "path"), ROWS["routes of a database"])
async def test_routes_of_a_database_name_toolgate_keys(http, method, path):
    response = await http.request(method, path, json={} if method == "POST" else None)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (404, "route_not_found")
    assert "`toolgate keys`" in error["message"]
    assert "DATABASE_URL" not in response.text


HELLO = {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", HELLO),
        ("/v1/messages", HELLO),
        ("/v1/messages/count_tokens", {key: HELLO[key] for key in ("model", "messages")}),
        (RESPONSES, {"model": "tiny", "input": "hi"}),
        ("/v1/responses/input_tokens", {"model": "tiny", "input": "hi"}),
    ],
)
async def test_browsers_and_clients_that_add_a_slash_are_answered(gateway, key, path, body):
    """Without a redirect, which not all follow, and with the headers that scripts may read."""
    asked = {"origin": BROWSER_ORIGIN, "access-control-request-method": "POST"}
    private = {**asked, "access-control-request-private-network": "true"}
    async with http_client(gateway, key) as client:
        response = await client.post(f"{path}/", json=body, headers={"origin": BROWSER_ORIGIN})
        assert response.status_code == 200, response.text
        assert "x-request-id" in response.headers["access-control-expose-headers"]
        preflight = await client.options(path, headers=private)
        assert preflight.headers["access-control-allow-private-network"] == "true"
        response = await client.options(f"{path}/", headers={"authorization": ""})
        assert (response.status_code, response.headers["allow"]) == (204, "POST, OPTIONS")


async def test_unknown_routes_have_the_form_of_other_errors(http, gateway, key):
    for path, hint in (
        ("/v1/chat/completion", "Did you mean /v1/chat/completions?"),
        ("/v1/v1/messages", ""),
        ("/x", ""),
    ):
        response = await http.post(path, json={})
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (404, "route_not_found")
        assert hint in error["message"]
        assert {"message", "type", "param", "code"} <= {*error}
    response = await http.delete("/v1/messages")
    assert (response.status_code, response.json()["type"]) == (405, "error")
    assert response.json()["error"]["code"] == "method_not_allowed"
    assert response.headers["allow"] == "POST"
    async with http_client(gateway, key) as client:
        denied = await client.post("/v1/chat/completion", json={})
        assert denied.status_code == 403
        assert "Did you mean /v1/chat/completions?" in denied.json()["error"]["message"]
    async with http_client(gateway) as stranger:
        assert (await stranger.post("/v1/v1/messages", json={})).status_code == 401


ANONYMOUS = {
    "/", "/redoc", "/openapi.json", "/ui", "/public/model_hub", "/public/litellm_blog_posts",
    "/.well-known/litellm-ui-config", "/sso/key/generate", "/get_image", "/login",
}  # fmt: skip
"""Some of the routes that LiteLLM serves without a key."""
LAZY = ("/register", "/authorize", "/.well-known/openid-configuration", "/langfuse/x", "/mcp/x")
"""Routes without LiteLLM's authentication that it loads on the first request."""


def part(routes):
    """Those that the commit chooses."""
    step = repeats(3, nightly=1)
    return routes[SAMPLE % step :: step]


async def open_routes(url, routes, *closed):
    """The routes whose response to a request without a key has another status."""
    found = []
    async with http_client(url, timeout=30, follow_redirects=True) as http:
        for method, path in routes:
            if path in HEALTH or (path == "/" and method in ("GET", "HEAD")):
                continue
            body = {} if method in ("POST", "PUT", "PATCH") else None
            response = await http.request(method, path, json=body)
            if response.status_code not in closed:
                found.append(f"{method} {path} {response.status_code}")
    return found


def test_routes_without_key_are_found():
    found = {path for _, path in routes_without_key()}
    assert found >= ANONYMOUS
    assert not found & {"/v1/models", "/chat/completions", "/key/generate", "/model/info"}


async def test_every_route_but_health_probes_requires_a_key(gateway, gateway_log, http):
    routes = http_routes()
    assert len(routes) > 500
    assert await open_routes(gateway, part(routes), 401) == []
    async with http_client(gateway) as stranger:
        for path in HEALTH:
            assert (await stranger.get(path)).status_code == 200
        wrong = await stranger.get("/redoc", headers=bearer("sk-wrong"))
        assert wrong.status_code == 401
    assert (await http.get("/redoc")).status_code == 200
    url = gateway.replace("http", "ws")
    for path in (RESPONSES, "/responses", "/openai/v1/responses"):
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
            await websockets.connect(url + path)
        assert refused.value.response.status_code == 426
        assert b"websocket_not_supported" in refused.value.response.body
    assert "completing handshake" not in gateway_log.read_text()
    for path in websocket_paths():
        with pytest.raises(websockets.exceptions.InvalidStatus):
            await websockets.connect(url + path)


@contextmanager
def web_proxy():
    """Environment variables of a web proxy that serves nothing, and the requests that it got."""
    requests = []
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def listen():
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            with line:
                line.settimeout(2)
                requests.append(line.recv(4096))

    threading.Thread(target=listen, daemon=True).start()
    variables = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), url)
    variables |= {name.lower(): value for name, value in variables.items()}
    try:
        yield variables | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}, requests
    finally:
        listener.close()


async def test_litellms_own_authentication_leaves_anonymous_routes_closed(spare_backend, tmp_path):
    """Without our `custom_auth` LiteLLM checks keys, and its anonymous routes are closed, too. The
    gateway asks no other server."""
    config = make_config([Route("tiny", "tiny")])
    for name in ("custom_auth", "custom_auth_run_common_checks"):
        del config["general_settings"][name]
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    routes = [*part(routes_without_key()), *(("GET", each) for each in LAZY)]
    with (
        web_proxy() as (variables, outside),
        serving(
            ["--config", str(path)], spare_backend.url, tmp_path / "log", **variables
        ) as gateway,
    ):
        assert await open_routes(gateway.url, routes, 404, 405) == []
        async with http_client(gateway.url, MASTER_KEY) as http:
            closed = await http.get("/redoc")
            assert closed.json()["error"]["code"] == "not_found"
            assert "TOOLGATE_OPEN_ROUTES" in closed.json()["error"]["message"]
            assert (await http.get("/v1/models")).status_code == 200
            assert (await http.get("/health/liveliness")).status_code == 200
        assert outside == []


@pytest.mark.parametrize("path", ["/v1/model/info", "/model/info", "/model_group/info"])
async def test_a_key_gets_the_details_of_its_models_without_addresses(gateway, http, key, path):
    """Cline's and Roo's providers list models by them."""
    async with http_client(gateway, key) as ordinary:
        response = await ordinary.get(path)
        everything = await http.get(path)
        unknown = await ordinary.get(path, headers={"authorization": "Bearer sk-wrong"})
    assert (response.status_code, unknown.status_code) == (200, 401)
    name = "model_group" if "group" in path else "model_name"
    assert {each[name] for each in everything.json()["data"]} == {"tiny", "down"}
    [entry] = response.json()["data"]
    about = entry.get("model_info", entry)
    assert (entry[name], about["max_input_tokens"]) == ("tiny", 4096)
    assert about["supports_function_calling"] is True
    assert entry.get("litellm_params") in (None, {"model": "toolgate/tiny"})
    assert "127.0.0.1" not in response.text
    assert "127.0.0.1" in everything.text or name == "model_group"


async def test_ordinary_key_opens_no_admin_route(gateway, key):
    """Every route that LiteLLM and we have, by every method: an ordinary key opens what is open to
    everyone, and nothing more."""
    ours = [route for route in router.routes if isinstance(route, APIRoute)]
    routes = [(method, each.path) for each in ours for method in each.methods]
    routes += part(http_routes())
    opened = []
    async with (
        http_client(gateway, key, timeout=60) as ordinary,
        http_client(gateway, timeout=60) as stranger,
    ):
        for method, path in routes:
            allowed = ROUTES.get(method)
            if allowed is not None and allowed.fullmatch(path):
                continue
            body = {} if method != "GET" else None
            status = (await ordinary.request(method, path, json=body)).status_code
            if status not in (401, 403, 404, 405):
                anyone = (await stranger.request(method, path, json=body)).status_code
                if anyone != status:
                    opened.append(f"{method} {path} {status}, without a key {anyone}")
    assert not opened, opened
