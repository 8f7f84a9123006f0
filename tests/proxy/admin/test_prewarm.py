"""Prewarming: by function, by the gateway's route, by the command line, and at the start."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from litellm.proxy._types import LitellmUserRoles, UserAPIKeyAuth
from litellm.proxy.auth.user_api_key_auth import user_api_key_auth
from pydantic import SecretStr
from typer.testing import CliRunner

from tests.support.fake_backend import INFO, KEY, FakeBackend, running
from tests.support.fleet import SECRET, gateway, tool, tools
from tests.support.gateway_process import MASTER_KEY, serving
from tests.support.redis_server import RedisServer
from tests.support.script import Script
from toolgate_core.plan import Tool, content_format, parse_tools
from toolgate_proxy.admin.prewarm import prewarm, prewarm_most_used
from toolgate_proxy.admin.routes import router
from toolgate_proxy.cli.admin_client import PrewarmFailed, read_tools
from toolgate_proxy.cli.main import app
from toolgate_proxy.grammars.service import grammar_key
from toolgate_proxy.routing.deployments import Deployments
from toolgate_proxy.settings import Settings, settings
from toolgate_proxy.stack.processes import free_port


def entry(name: str, **parameters: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object"} | parameters},
    }


def plain(name: str) -> Tool:
    (parsed,) = parse_tools([entry(name)])
    return parsed


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


DEEP: dict[str, Any] = {}
for _ in range(40):
    DEEP = {"properties": {"a": DEEP}}
ENTRIES: list[object] = [
    entry("warm1"),
    entry("warm2", properties={"a": {"type": "string"}}),
    entry("warm1"),
    entry("refused_one"),
    entry("no spaces"),
    entry("too_deep", **DEEP),
    "no tool",
]
EXPECTED = {
    "warm1": ("ready", None),
    "warm2": ("ready", None),
    "refused_one": ("refused", "schema_not_enforceable"),
    "no spaces": ("invalid", "invalid_tools"),
    "too_deep": ("refused", "schema_too_complex"),
    "None": ("invalid", "invalid_tools"),
}


@pytest.fixture
def other_backend() -> Iterator[FakeBackend]:
    with running(FakeBackend()) as backend:
        yield backend


def shown(report: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {each["name"]: (each["status"], each.get("code")) for each in report["tools"]}


async def test_every_backend_gets_every_tool(
    backend: FakeBackend, other_backend: FakeBackend
) -> None:
    known = Deployments(Settings())
    places = [known.get(each.url, KEY) for each in (backend, other_backend)]
    places.append(known.get(f"http://127.0.0.1:{free_port()}", KEY))
    reports = [each.model_dump() for each in await prewarm(places, ENTRIES, Settings())]
    assert shown(reports[0]) == shown(reports[1]) == EXPECTED
    assert [len(each.loaded) for each in (backend, other_backend)][1] == 2
    failed = dict.fromkeys(("warm1", "warm2", "refused_one"), ("failed", "backend_unavailable"))
    assert shown(reports[2]) == EXPECTED | failed
    again = await prewarm(places[1:2], ENTRIES[:2], Settings())
    assert [each.tier for each in again[0].tools] == ["memory", "memory"]


async def test_a_schema_over_its_limits_is_refused(backend: FakeBackend) -> None:
    strict = Settings(schema_max_properties=1)
    place = Deployments(strict).get(backend.url, KEY)
    wide = entry("wide", properties={"a": {}, "b": {}})
    (report,) = await prewarm([place], [wide], strict)
    assert shown(report.model_dump()) == {"wide": ("refused", "schema_too_complex")}
    assert not backend.loads


async def test_the_most_used_are_loaded_where_they_fit(
    backend: FakeBackend, other_backend: FakeBackend, redis_at_hand: RedisServer
) -> None:
    used = (*tools(40, "used"), tool("heavy_used"))
    async with gateway(backend.url, redis_at_hand.url) as first:
        await first.ask(*used)
    known = Deployments(
        Settings(redis_url=SecretStr(redis_at_hand.url), fleet_secret=SecretStr(SECRET))
    )
    assert known.fleet is not None
    await known.fleet.connected()
    await prewarm_most_used([known.get(other_backend.url, KEY)], known.fleet, 100)
    assert len(other_backend.loaded) == 32, "half of what the backend holds at most"
    assert all(source.examined for source in other_backend.sources)
    other_backend.forget()
    other_backend.info = INFO.model_copy(update={"tokenizer": "another"})
    stranger = Deployments(
        Settings(redis_url=SecretStr(redis_at_hand.url), fleet_secret=SecretStr(SECRET))
    )
    await prewarm_most_used([stranger.get(other_backend.url, KEY)], known.fleet, 100)
    assert not other_backend.loaded, "compiled for another tokenizer"
    await known.fleet.aclose()


async def test_a_format_of_content_is_loaded_like_a_tool(
    backend: FakeBackend, other_backend: FakeBackend, redis_at_hand: RedisServer
) -> None:
    form = content_format({"type": "object", "properties": {"a": {}}}, param="response_format")
    async with gateway(backend.url, redis_at_hand.url) as first:
        await first.ask(form, tool("beside"))
    shared = Settings(redis_url=SecretStr(redis_at_hand.url), fleet_secret=SecretStr(SECRET))
    known = Deployments(shared)
    assert known.fleet is not None
    await known.fleet.connected()
    await prewarm_most_used([known.get(other_backend.url, KEY)], known.fleet, 100)
    assert {source.name for source in other_backend.sources} == {"", "beside"}
    await known.fleet.aclose()


# --- the route and the command ----------------------------------------------------------------


async def test_the_route(http: httpx.AsyncClient, backend: FakeBackend) -> None:
    answer = await http.post("/toolgate/prewarm", json={"model": "tiny", "tools": ENTRIES})
    assert answer.status_code == 200, answer.text
    (report,) = answer.json()["backends"]
    assert report["backend"] == backend.url
    assert shown(report) == EXPECTED
    assert grammar_key(plain("warm1"), INFO) in backend.loaded


async def test_all_models(http: httpx.AsyncClient, backend: FakeBackend) -> None:
    answer = await http.post("/toolgate/prewarm", json={"tools": [entry("everywhere")]})
    statuses = [shown(report)["everywhere"] for report in answer.json()["backends"]]
    assert sorted(statuses) == [("failed", "backend_unavailable"), ("ready", None)]


async def test_the_route_refuses(http: httpx.AsyncClient, gateway: str) -> None:
    unknown = await http.post("/toolgate/prewarm", json={"model": "?", "tools": []})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    for body, param in (({"tools": "x"}, "tools"), ({}, "tools"), ({"tools": [], "a": 1}, "a")):
        wrong = await http.post("/toolgate/prewarm", json=body)
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, param)
    # From an address of its own: other tests guess keys until theirs is not answered any more.
    transport = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient(base_url=gateway, transport=transport) as stranger:
        for headers in ({}, {"Authorization": "Bearer sk-guessed"}):
            answer = await stranger.post("/toolgate/prewarm", json={"tools": []}, headers=headers)
            assert answer.status_code == 401
            told = await stranger.get("/toolgate/metrics", headers=headers)
            assert told.status_code == 401


async def test_a_users_key_is_not_enough() -> None:
    """Keys of users come from a database or from custom_auth; here it is said whose it is."""
    app = FastAPI()
    app.include_router(router)
    user = UserAPIKeyAuth(user_role=LitellmUserRoles.INTERNAL_USER)
    app.dependency_overrides[user_api_key_auth] = lambda: user
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as someone:
        for answer in (
            await someone.post("/toolgate/prewarm", json={"tools": []}),
            await someone.get("/toolgate/metrics"),
        ):
            assert answer.status_code == 403
            assert answer.json()["error"]["code"] == "permission_denied"


def test_the_command(
    gateway: str, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", MASTER_KEY)
    settings.cache_clear()
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps({"model": "x", "tools": [entry("cold1"), entry("cold2")]}))
    bad.write_text(json.dumps([entry("refused_two")]))
    try:
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
    finally:
        settings.cache_clear()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (json.dumps(entry("a")), ["a"]),
        (json.dumps([entry("a"), entry("b")]), ["a", "b"]),
        (json.dumps([{"tools": [entry("a")]}, [entry("b")]]), ["a", "b"]),
    ],
)
def test_files_of_tools(text: str, names: list[str], tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(text)
    found: list[Any] = read_tools([path])
    assert [each["function"]["name"] for each in found] == names


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_files_without_tools(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(text)
    with pytest.raises(PrewarmFailed):
        read_tools([path])


def test_a_starting_gateway_loads_what_was_used_most(
    backend: FakeBackend, redis_of_gateway: RedisServer, gateway: str, tmp_path: Path
) -> None:
    """The session's gateway has counted; one that starts anew finds its backend warmed."""
    backend.scripts["hi"] = Script(("Hello",))
    ask = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [entry("habit")],
    }
    headers = {"Authorization": f"Bearer {MASTER_KEY}"}
    asked = httpx.post(f"{gateway}/v1/chat/completions", json=ask, headers=headers, timeout=30)
    assert asked.headers["x-toolgate-grammar"].startswith("compiled")
    key = grammar_key(plain("habit"), INFO)
    _until(lambda: redis_of_gateway.client.keys("toolgate:used:*") != [], seconds=20)
    with running(FakeBackend()) as fresh:
        command = [sys.executable, "-m", "toolgate_proxy", "proxy", "--model", "tiny"]
        with serving(command, fresh.url, tmp_path / "log", redis_of_gateway.url) as other:
            _until(lambda: key in fresh.loaded, seconds=20)
            fresh.scripts["hi"] = Script(("Hello",))
            asked = httpx.post(
                f"{other.url}/v1/chat/completions", json=ask, headers=headers, timeout=30
            )
    assert asked.headers["x-toolgate-grammar"].startswith("memory; n=1; ms=")
    assert not fresh.compiles
