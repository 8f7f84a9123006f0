"""Requests without a key: every route of LiteLLM's app is closed, except health probes. The files
of our own page are at `/`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
import yaml

from tests.support.litellm.routes_of_app import http_routes, routes_without_key, websocket_paths
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from toolgate_proxy.server.authorization import HEALTH
from toolgate_proxy.server.launcher import Route, make_config

ANONYMOUS = {
    "/docs", "/redoc", "/openapi.json", "/ui", "/public/model_hub", "/public/litellm_blog_posts",
    "/.well-known/litellm-ui-config", "/sso/key/generate", "/get_image", "/login", "/robots.txt",
}  # fmt: skip
"""Some of the routes that LiteLLM serves without a key."""
LAZY = ("/register", "/authorize", "/.well-known/openid-configuration", "/langfuse/x", "/mcp/x")
"""Routes without LiteLLM's authentication that it loads on the first request."""


@contextmanager
def web_proxy() -> Iterator[tuple[dict[str, str], list[bytes]]]:
    """Environment variables of a web proxy that serves nothing, and the requests that it got."""
    requests: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def listen() -> None:
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


async def open_routes(url: str, routes: list[tuple[str, str]], *closed: int) -> list[str]:
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


def test_routes_without_key_are_found() -> None:
    found = {path for _, path in routes_without_key()}
    assert found >= ANONYMOUS
    assert not found & {"/v1/models", "/chat/completions", "/key/generate", "/model/info"}


async def test_every_route_but_health_probes_requires_a_key(
    spare_backend: FakeBackend, tmp_path: Path
) -> None:
    routes = http_routes()
    assert len(routes) > 500
    with web_proxy() as (variables, outside):
        arguments = ["--model", "tiny"]
        with serving(arguments, spare_backend.url, tmp_path / "log", **variables) as gateway:
            assert await open_routes(gateway.url, routes, 401) == []
            async with http_client(gateway.url) as http:
                for path in HEALTH:
                    assert (await http.get(path)).status_code == 200
                wrong = await http.get("/redoc", headers=bearer("sk-wrong"))
                assert wrong.status_code == 401
                master = await http.get("/redoc", headers=bearer(MASTER_KEY))
                assert master.status_code == 200
            for path in ("/v1/responses", "/responses", "/openai/v1/responses"):
                with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
                    await websockets.connect(gateway.url.replace("http", "ws") + path)
                assert refused.value.response.status_code == 426
                assert b"websocket_not_supported" in refused.value.response.body
            for path in websocket_paths():
                with pytest.raises(websockets.exceptions.InvalidStatus):
                    await websockets.connect(gateway.url.replace("http", "ws") + path)
        assert outside == []


async def test_setting_opens_a_route_and_the_routes_below_it(
    spare_backend: FakeBackend, tmp_path: Path
) -> None:
    opened = {"TOOLGATE_OPEN_ROUTES": "/redoc, /.well-known"}
    with serving(["--model", "tiny"], spare_backend.url, tmp_path / "log", **opened) as gateway:
        async with http_client(gateway.url) as http:
            assert (await http.get("/redoc")).status_code == 200
            assert (await http.get("/.well-known/litellm-ui-config")).status_code == 200
            for path in ("/docs", "/redocs", "/public/model_hub", "/v1/models"):
                assert (await http.get(path)).status_code == 401


async def test_litellms_own_authentication_leaves_anonymous_routes_closed(
    spare_backend: FakeBackend, tmp_path: Path
) -> None:
    """Without our `custom_auth` LiteLLM checks keys, and its anonymous routes are closed, too."""
    config: dict[str, Any] = make_config([Route("tiny", "tiny")])
    for name in ("custom_auth", "custom_auth_run_common_checks"):
        del config["general_settings"][name]
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    routes = [*routes_without_key(), *(("GET", each) for each in LAZY)]
    with serving(["--config", str(path)], spare_backend.url, tmp_path / "log") as gateway:
        assert await open_routes(gateway.url, routes, 404, 405) == []
        async with http_client(gateway.url, headers=bearer(MASTER_KEY)) as http:
            closed: httpx.Response = await http.get("/redoc")
            assert closed.json()["error"]["code"] == "not_found"
            assert "TOOLGATE_OPEN_ROUTES" in closed.json()["error"]["message"]
            assert (await http.get("/v1/models")).status_code == 200
            assert (await http.get("/health/liveliness")).status_code == 200
