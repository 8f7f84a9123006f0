"""The key of a backend, on vLLM's own app with the plug-in."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.testclient import TestClient
from vllm.entrypoints.openai.api_server import build_app
from vllm.utils.argparse_utils import FlexibleArgumentParser

from toolgate_backend.endpoint import access
from toolgate_backend.settings import Settings
from toolgate_core.host_probe import PrivateName, find

PARSER = PrivateName(
    "vllm.entrypoints.launchers.cli_args:make_arg_parser",
    "vLLM's options",
    older="vllm.entrypoints.openai.cli_args:make_arg_parser",
)
KEY, TOKEN = "the-key-of-the-backend", "the-token-of-scrapers"


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FastAPI]:
    def build(*flags: str, **environment: str) -> FastAPI:
        for name, value in {"VLLM_PLUGINS": "toolgate", **environment}.items():
            monkeypatch.setenv(name, value)
        options = find(PARSER)(FlexibleArgumentParser()).parse_args([*flags])
        built: FastAPI = build_app(options, ("generate",), None)
        return built

    settings = Settings(metrics_token=SecretStr(TOKEN))
    monkeypatch.setattr(access, "settings", lambda: settings)
    return build


def statuses(app: FastAPI, key: str) -> dict[tuple[str, str], int]:
    """The status of each route and method."""
    client = TestClient(app, raise_server_exceptions=False)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    routes: list[Any] = [*app.routes]
    return {
        (method, route.path): client.request(method, route.path, headers=headers).status_code
        for route in routes
        for method in {*(getattr(route, "methods", None) or ["GET"]), "OPTIONS"}
    }


@pytest.mark.parametrize(
    ("flags", "environment"), [(["--api-key", "other", KEY], {}), ([], {"VLLM_API_KEY": KEY})]
)
def test_every_route_except_health_probes_requires_the_key(
    app: Callable[..., FastAPI], flags: list[str], environment: dict[str, str]
) -> None:
    served = app(*flags, **environment)
    without, wrong, right = (statuses(served, key) for key in ("", KEY[:-1], KEY))
    assert {"/invocations", "/tokenize", "/metrics", "/v1/toolgate/generate"} <= {
        path for _, path in without
    }
    for each in (without, wrong):
        assert {path for (_, path), status in each.items() if status != 401} == {"/health", "/ping"}
    assert 401 not in right.values()


def test_the_token_of_scrapers_opens_the_metrics_only(app: Callable[..., FastAPI]) -> None:
    scraped = statuses(app(VLLM_API_KEY=KEY), TOKEN)
    opened = {path for (_, path), status in scraped.items() if status != 401}
    assert opened == {"/health", "/ping", "/metrics"}
    assert scraped["GET", "/metrics"] == 200


@pytest.mark.parametrize(
    ("flags", "warned"),
    [([], True), (["--host", "0.0.0.0"], True), (["--host", "127.0.0.1"], False)],
)
def test_a_server_without_a_key_is_warned_about_if_others_reach_it(
    app: Callable[..., FastAPI],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    warned: bool,
) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    with caplog.at_level(logging.WARNING):
        assert 401 not in statuses(app(*flags), "").values()
    assert ("has no API key" in caplog.text) is warned
