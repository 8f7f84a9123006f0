"""Prewarming a running gateway: its route, the command that calls it, and its start."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from tests.support.grammars.prewarm_tools import ENTRIES, EXPECTED, entry
from tests.support.litellm.routes import OWN_ROUTE_ONLY
from tests.support.servers.fake_backend import INFO, FakeBackend, running
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from toolgate_core.tools import Tool, parse_tools
from toolgate_proxy.cli.main import app
from toolgate_proxy.grammars.service import grammar_key
from toolgate_proxy.stack.processes import free_port

pytestmark = OWN_ROUTE_ONLY


def plain(name: str) -> Tool:
    (parsed,) = parse_tools([entry(name)])
    return parsed


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def shown(report: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {each["name"]: (each["status"], each.get("code")) for each in report["tools"]}


async def test_prewarm_reports_every_tool(http: httpx.AsyncClient, backend: FakeBackend) -> None:
    answer = await http.post("/toolgate/prewarm", json={"model": "tiny", "tools": ENTRIES})
    assert answer.status_code == 200, answer.text
    (report,) = answer.json()["backends"]
    assert report["backend"] == backend.url
    assert shown(report) == EXPECTED
    assert grammar_key(plain("warm1"), INFO) in backend.loaded


async def test_prewarm_without_a_model_covers_all_models(
    http: httpx.AsyncClient, backend: FakeBackend
) -> None:
    answer = await http.post("/toolgate/prewarm", json={"tools": [entry("everywhere")]})
    statuses = [shown(report)["everywhere"] for report in answer.json()["backends"]]
    assert sorted(statuses) == [("failed", "backend_unavailable"), ("ready", None)]


async def test_prewarm_refuses_invalid_bodies_and_strangers(
    http: httpx.AsyncClient, gateway: str
) -> None:
    unknown = await http.post("/toolgate/prewarm", json={"model": "?", "tools": []})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    for body, param in (({"tools": "x"}, "tools"), ({}, "tools"), ({"tools": [], "a": 1}, "a")):
        wrong = await http.post("/toolgate/prewarm", json=body)
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, param)
    # From an address of its own: other tests guess keys until theirs is not answered any more.
    transport = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with http_client(gateway, transport=transport) as stranger:
        for headers in ({}, {"Authorization": "Bearer sk-guessed"}):
            answer = await stranger.post("/toolgate/prewarm", json={"tools": []}, headers=headers)
            assert answer.status_code == 401
            told = await stranger.get("/toolgate/metrics", headers=headers)
            assert told.status_code == 401


def test_prewarm_command_prints_the_report(
    gateway: str, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", MASTER_KEY)
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps({"model": "x", "tools": [entry("cold1"), entry("cold2")]}))
    bad.write_text(json.dumps([entry("refused_two")]))
    said = CliRunner().invoke(app, ["prewarm", str(good), "--url", gateway, "--model", "tiny"])
    assert said.exit_code == 0, said.output
    assert "cold1: ready (compiled, fake, 1.0 ms)" in said.output
    both = ["prewarm", str(good), str(bad), "--url", gateway, "--model", "tiny"]
    said = CliRunner().invoke(app, both)
    assert said.exit_code == 1
    assert "cold1: ready (memory)" in said.output
    assert "refused_two: refused (no `not`.)" in said.output
    nobody = f"http://127.0.0.1:{free_port()}"
    assert CliRunner().invoke(app, ["prewarm", str(good), "--url", nobody]).exit_code == 2
    assert "sk-" not in said.output


def test_starting_gateway_loads_the_most_used_grammars(
    backend: FakeBackend, redis_of_gateway: RedisServer, gateway: str, tmp_path: Path
) -> None:
    """The session's gateway has counted; one that starts anew finds its backend warmed."""
    redis, days = redis_of_gateway.client, "toolgate:used:*"
    if used := redis.keys(days):
        redis.delete(*used)  # earlier tests may have used others more often
    backend.scripts["hi"] = Script(("Hello",))
    ask = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [entry("habit")],
    }
    headers = bearer(MASTER_KEY)
    asked = httpx.post(f"{gateway}/v1/chat/completions", json=ask, headers=headers, timeout=30)
    assert asked.headers["x-toolgate-grammar"].startswith("compiled")
    key = grammar_key(plain("habit"), INFO)
    _until(lambda: any(redis.zscore(day, key) for day in redis.keys(days)), seconds=20)
    with running(FakeBackend()) as fresh:
        arguments = ("--model", "tiny")
        with serving(arguments, fresh.url, tmp_path / "log", redis_of_gateway.url) as other:
            _until(lambda: key in fresh.loaded, seconds=20)
            fresh.scripts["hi"] = Script(("Hello",))
            asked = httpx.post(
                f"{other.url}/v1/chat/completions", json=ask, headers=headers, timeout=30
            )
    assert asked.headers["x-toolgate-grammar"].startswith("memory; n=1; ms=")
    assert not fresh.compiles
