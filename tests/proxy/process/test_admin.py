"""The administrator's routes: prewarming, schema reports, the playground, status, keys and metrics;
the commands that call them; and the page as it is served.
"""

import json
import time
from datetime import datetime

import pytest
from typer.testing import CliRunner

from tests.proxy.process.kit import BOTH_ROUTES, CHAT, HI
from tests.support.grammars.prewarm_tools import ENTRIES, EXPECTED, entry
from tests.support.schemas.report_tools import ENTRIES as REPORTED
from tests.support.schemas.report_tools import UNIQUE
from tests.support.servers.fake_backend import INFO, KEY, WITHOUT_MASKS
from tests.support.servers.gateway_process import KEY_SECRET, MASTER_KEY
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script, call
from toolgate_core.tools import parse_tools
from toolgate_proxy.backend_client.event_stream import SseParser
from toolgate_proxy.grammars.service import grammar_key
from toolgate_proxy.ops.admin.advice import ADVICE
from toolgate_proxy.ops.cli import app
from toolgate_proxy.ops.page import POLICY
from toolgate_proxy.ops.stack.processes import free_port


def plain(name):
    (parsed,) = parse_tools([entry(name)])
    return parsed


def shown(report):
    return {each["name"]: (each["status"], each.get("code")) for each in report["tools"]}


async def test_prewarm_reports_every_tool(http, backend):
    answer = await http.post("/toolgate/prewarm", json={"model": "tiny", "tools": ENTRIES})
    assert answer.status_code == 200, answer.text
    (report,) = answer.json()["backends"]
    assert report["backend"] == backend.url
    assert shown(report) == EXPECTED
    assert grammar_key(plain("warm1"), INFO) in backend.loaded


async def test_prewarm_without_a_model_covers_all_models(http, backend):
    answer = await http.post("/toolgate/prewarm", json={"tools": [entry("everywhere")]})
    statuses = [shown(report)["everywhere"] for report in answer.json()["backends"]]
    assert sorted(statuses) == [("failed", "backend_unavailable"), ("masked", None)]


def test_prewarm_command_prints_the_report(gateway, backend, tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", MASTER_KEY)
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps({"model": "x", "tools": [entry("cold1"), entry("cold2")]}))
    bad.write_text(json.dumps([entry("refused_two")]))
    said = CliRunner().invoke(app, ["prewarm", str(good), "--url", gateway, "--model", "tiny"])
    assert said.exit_code == 0, said.output
    assert "cold1: masked (fake, 1.0 ms)" in said.output
    both = ["prewarm", str(good), str(bad), "--url", gateway, "--model", "tiny"]
    said = CliRunner().invoke(app, both)
    assert said.exit_code == 1
    assert "cold1: masked (fake, 1.0 ms)" in said.output
    assert "refused_two: refused (no `not`.)" in said.output
    nobody = f"http://127.0.0.1:{free_port()}"
    assert CliRunner().invoke(app, ["prewarm", str(good), "--url", nobody]).exit_code == 2
    assert "sk-" not in said.output


async def test_wrong_bodies_and_other_keys_are_refused(http, gateway, key):
    unknown = await http.post("/toolgate/prewarm", json={"model": "?", "tools": []})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    wrong = [
        *(("/toolgate/prewarm", each, "tools") for each in ({"tools": "x"}, {})),
        ("/toolgate/prewarm", {"tools": [], "a": 1}, "a"),
        ("/toolgate/schema", {"tools": "x"}, "tools"),
        ("/toolgate/schema", {"tools": [], "instances": []}, "instances"),
        ("/toolgate/tools", {"tools": [MCP, {"mcpServers": {}}]}, "tools[1]"),
        ("/toolgate/unconstrained", body(n=2), "n"),
        ("/toolgate/unconstrained", body(messages=[]), "messages"),
    ]  # fmt: skip
    for path, sent, param in wrong:
        response = await http.post(path, json=sent)
        assert (response.status_code, response.json()["error"]["param"]) == (400, param), sent
    other = await http.post("/toolgate/unconstrained", json=body(model="none"))
    assert (other.status_code, other.json()["error"]["param"]) == (404, "model")
    posted = [f"/toolgate/{each}" for each in ("prewarm", "schema", "tools", "unconstrained")]
    read = [f"/toolgate/{each}" for each in ("metrics", "keys", "status")]
    for headers, status in (({}, 401), (bearer("sk-guessed"), 401), (bearer(key), 403)):
        async with http_client(gateway, headers=headers) as client:
            for path in posted:
                assert (await client.post(path, json=body())).status_code == status, path
            for path in read:
                assert (await client.get(path)).status_code == status, path


async def test_schema_route_reports_every_tool(http, backend):
    backend.residual["set_tags"] = (UNIQUE,)
    answer = await http.post("/toolgate/schema", json={"model": "tiny", "tools": REPORTED})
    assert answer.status_code == 200, answer.text
    (report,) = answer.json()["backends"]
    assert report["backend"] == backend.url
    told = {each["name"]: each for each in report["tools"]}
    assert {name: each["status"] for name, each in told.items()} == {
        "plain": "masked",
        "set_tags": "checked",
        "refused_one": "refused",
        "away": "refused",
        "no spaces": "invalid",
    }
    assert told["plain"]["engine"] == "fake"
    assert told["away"]["pointer"] == "/properties/a/$ref"
    (left,) = told["set_tags"]["residual"]
    why, rewrite = ADVICE["uniqueItems"]
    assert left == UNIQUE.model_dump() | {"why": why, "rewrite": rewrite}


def test_schema_command_prints_the_report(gateway, backend, tmp_path, monkeypatch):
    backend.residual["set_tags"] = (UNIQUE,)
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(REPORTED[:2]))
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", MASTER_KEY)
    command = ["schema", str(tools), "--url", gateway, "--model", "tiny"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 1, said.output
    assert "plain: masked (fake, 1.0 ms)" in said.output
    assert "set_tags: checked (fake, 1.0 ms)" in said.output
    assert UNIQUE.pointer in said.output
    assert "sk-" not in said.output
    assert CliRunner().invoke(app, [*command, "--instance", str(tools)]).exit_code == 2


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
OPENAI = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
MCP = {"name": "look", "inputSchema": SCHEMA}
GOOD, BAD = call("look", {"city": "Rome"}), call("look", {"town": "Rome"})


def body(content="where?", **more):
    messages = [{"role": "user", "content": content}]
    return {"model": "tiny", "messages": messages, "tools": [OPENAI], **more}


def events(response):
    payloads = SseParser().feed(response.content)
    return [json.loads(data) for data in payloads if data != b"[DONE]"]


def traces(response):
    choices = [choice for event in events(response) for choice in event["choices"]]
    return [each for choice in choices for each in choice.get("toolgate", {}).get("trace", [])]


async def test_the_same_prompt_without_enforcement_shows_what_is_broken(http, backend):
    backend.scripts["where?" + WITHOUT_MASKS] = Script((BAD,))
    response = await http.post("/toolgate/unconstrained", json=body(tool_choice="required"))
    *texts, last = events(response)
    assert "".join(each["text"] for each in texts).startswith(BAD)
    [broken] = last["judgement"]["breaks"]
    assert broken["keyword"] in ("required", "additionalProperties")
    assert backend.requests[-1].enforcement is None
    assert len(backend.messages()) == 1


async def test_a_stream_has_the_trace_of_each_token_for_the_master_key(http, gateway, key, backend):
    backend.scripts["where?"] = Script((GOOD,))
    asked = body(stream=True, stream_options={"toolgate_trace": True})
    found = traces(await http.post(CHAT, json=asked))
    assert "".join(each["text"] for each in found) == GOOD + "<|im_end|>"
    assert [each["at"] for each in found] == [*range(len(found))]
    assert found[0] | {"id": 0} == {
        "at": 0, "id": 0, "text": "<tool_call>", "phase": "content", "kind": "forced", "allowed": 1
    }  # fmt: skip
    assert backend.requests[-1].trace is True
    assert traces(await http.post(CHAT, json=body(stream=True))) == []
    assert not backend.requests[-1].trace
    async with http_client(gateway, key) as client:
        refused = await client.post(CHAT, json=asked)
    assert refused.status_code == 403
    assert "master key" in refused.json()["error"]["message"]


async def test_prompt_logprobs_require_the_master_key_on_all_apis(http, gateway, key, backend):
    asked = {
        CHAT: HI,
        "/v1/responses": {"model": "tiny", "input": "hi"},
        "/v1/messages": {"model": "tiny", "max_tokens": 9, "messages": HI["messages"]},
    }
    async with http_client(gateway, key) as client:
        for path, given in asked.items():
            sent = {**given, "prompt_logprobs": 1}
            before = len(backend.requests)
            refused = await client.post(path, json=sent)
            assert refused.status_code == 403, path
            assert "'prompt_logprobs' requires the gateway's" in refused.json()["error"]["message"]
            assert len(backend.requests) == before
            assert (await http.post(path, json=sent)).status_code == 200
            assert backend.requests[-1].sampling.prompt_logprobs == 1


async def test_the_page_needs_no_key(gateway):
    served = {"/": "text/html", "/toolgate/page/app.js": "text/javascript"}
    async with http_client(gateway) as client:
        for path, media_type in served.items():
            response, head = await client.get(path), await client.head(path)
            assert response.status_code == head.status_code == 200
            assert response.headers["content-type"].startswith(media_type)
            assert response.headers["content-security-policy"] == POLICY
            assert response.headers["x-content-type-options"] == "nosniff"
            assert head.content == b""
            assert int(head.headers["content-length"]) == len(response.content)


@pytest.mark.slow
async def test_litellms_documentation_needs_a_key_and_has_no_secrets(gateway, http):
    shown = await http.get("/docs")
    assert shown.is_success
    assert "swagger" in shown.text.lower()
    document = await http.get("/openapi.json", timeout=300)
    paths = document.json()["paths"]
    assert {"/v1/chat/completions", "/v1/responses", "/toolgate/status"} <= paths.keys()
    for secret in (MASTER_KEY, KEY, KEY_SECRET):
        assert secret not in shown.text + document.text
    async with http_client(gateway) as stranger:
        for path in ("/docs", "/openapi.json", "/toolgate/status", "/toolgate/keys"):
            assert (await stranger.get(path)).status_code == 401, path


async def test_keys_are_listed_with_their_use_and_without_secrets(gateway, key, http):
    async with http_client(gateway, key) as client:
        (await client.post(CHAT, json=HI)).raise_for_status()
    response = await http.get("/toolgate/keys")
    listed = response.json()
    assert listed["usage"] is True
    assert key not in response.text
    [mine] = [each for each in listed["keys"] if any(_hints(hint, key) for hint in each["hints"])]
    assert mine["status"] == "active"
    assert mine["models"] == ["tiny"]
    assert mine["limits"] == {"rpm": 1000}
    assert mine["today"]["tokens_today"] > 0
    assert datetime.fromisoformat(mine["last_used"]).timestamp() == pytest.approx(
        time.time(), abs=60
    )


def _hints(hint, key):
    beginning, _, end = hint.partition("…")
    return key.startswith(beginning) and key.endswith(end)


@BOTH_ROUTES
async def test_the_status_has_the_requests_of_the_last_minutes(http, backend, route):
    before = _totals((await http.get("/toolgate/status")).json())
    (await http.post(CHAT, json=HI | {"stream": True})).raise_for_status()
    assert (await http.post(CHAT, json=HI | {"n": -1})).status_code == 400
    status = (await http.get("/toolgate/status")).json()
    after = _totals(status)
    assert after["requests"] - before["requests"] == 2
    assert after["refused"] - before["refused"] == 1
    assert after["failed"] == before["failed"]
    times = [each["first_token_ms"] for each in status["recent"] if each["first_token_ms"]]
    assert times or route == "litellm"  # LiteLLM's handler does not report the first token
    assert all(0 < each["p50"] <= each["p90"] <= each["p99"] for each in times)
    assert status["database"] is False
    [tiny] = [each["backends"] for each in status["models"] if each["model"] == "tiny"]
    about = backend.described
    assert tiny[0]["replicas"] == [{"replica": about.replica, "fingerprint": about.fingerprint}]


def _totals(status):
    names = ("requests", "refused", "failed")
    return {name: sum(minute[name] for minute in status["recent"]) for name in names}
