"""The key of a backend, on vLLM's own app with the plug-in."""

from __future__ import annotations

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

LAUNCHERS, OPENAI = (f"vllm.entrypoints.{name}.cli_args" for name in ("launchers", "openai"))
PARSER = PrivateName(f"{LAUNCHERS}:make_arg_parser", "", older=f"{OPENAI}:make_arg_parser")
KEY, TOKEN = "the-key-of-the-backend", "the-token-of-scrapers"
PROBES = {"/health", "/ping"}


def opened(app: FastAPI, key: str) -> set[str]:
    """The paths whose routes do not refuse a key."""
    client = TestClient(app, raise_server_exceptions=False)
    routes: list[Any] = [*app.routes]
    return {
        route.path
        for route in routes
        for method in {*(getattr(route, "methods", None) or ["GET"]), "OPTIONS"}
        if client.request(method, route.path, headers={"Authorization": key}).status_code != 401
    }


@pytest.mark.parametrize(
    ("flags", "variable"), [(["--api-key", "other", KEY], "x"), ([], KEY), ([], "")]
)
def test_every_route_except_probes_requires_the_key(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], variable: str
) -> None:
    settings = Settings(metrics_token=SecretStr(TOKEN))
    monkeypatch.setattr(access, "settings", lambda: settings)
    monkeypatch.setenv("VLLM_PLUGINS", "toolgate")
    monkeypatch.setenv("VLLM_API_KEY", variable)
    args = find(PARSER)(FlexibleArgumentParser()).parse_args(flags)
    app = build_app(args, ("generate",), None)
    every = {route.path for route in app.routes}
    assert {"/invocations", "/tokenize", "/scale_elastic_ep", "/v1/toolgate/generate"} < every
    assert opened(app, f"bearer {KEY}") == every
    for key in ["", f"Bearer {KEY[:-1]}", KEY, *(["Bearer x"] if flags else [])]:
        assert opened(app, key) == (PROBES if flags or variable else every)
    if flags:
        assert opened(app, f"Bearer {TOKEN}") == PROBES | {"/metrics"}
