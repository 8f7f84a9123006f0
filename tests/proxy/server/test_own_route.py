"""Responses, errors, hooks and log events of the gateway's own route."""

import asyncio
import json

import litellm
import pytest
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger
from litellm.litellm_core_utils.litellm_logging import Logging

from tests.proxy.server import kit
from tests.proxy.server.kit import APIS, STREAM, function
from tests.support.apis.messages_api import HI, check_error
from tests.support.apis.responses_api import check_event
from tests.support.effort import rotating, sampled
from tests.support.litellm.log_events import AFTERWARDS, log_events
from tests.support.litellm.own_route import PATHS, TICK, body_of, chat, ours
from tests.support.litellm.router import foreign, use
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.api.shared.output import COMMENT
from toolgate_proxy.api.surfaces import SURFACES
from toolgate_proxy.backend_client.event_stream import SseParser
from toolgate_proxy.litellm_host.routing import fallbacks

COUNT = f"{PATHS['messages']}/count_tokens"
COMPACT = f"{PATHS['responses']}/compact"


async def test_whole_response_has_length_type_and_call_id_headers(gateway):
    response = await gateway.ask(chat())
    assert (response.status, response.text) == (200, "Hello there")
    assert response.json["model"] == "tiny"
    assert response.headers[b"content-type"] == b"application/json"
    assert int(response.headers[b"content-length"]) == len(response.bodies[0])
    assert response.headers[b"x-litellm-call-id"].decode() == response.context.call_id
    assert response.context.meter.complete
    assert (response.context.meter.prompt_tokens, response.context.model) == (11, "tiny")
    assert not gateway.host.passed


async def test_stream_has_events_usage_and_done(gateway):
    """Events that come together are sent together: the first bytes have the role and a text."""
    gateway.configure(keepalive_seconds=0)
    gateway.backend.scripts["long"] = Script(("word " * 60,))
    body = chat("long", stream=True, stream_options={"include_usage": True})
    response = await gateway.ask(body)
    assert (response.status, response.text) == (200, "word " * 60)
    assert len(SseParser().feed(response.bodies[0])) >= 2
    assert response.headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert response.headers[b"cache-control"] == b"no-cache"
    assert b"content-length" not in response.headers
    assert response.events[-1]["usage"]["prompt_tokens"] == 11
    assert response.bodies[-1].endswith(b"data: [DONE]\n\n")
    last = [message.get("more_body", False) for message in response.messages[1:]]
    assert last == [True] * (len(last) - 1) + [False]
    assert response.context.meter.complete


@STREAM
async def test_a_stop_string_ends_the_generation(gateway, stream):
    gateway.backend.scripts["wordy"] = Script(("One two three four " * 50,), pause=0.01)
    response = await gateway.ask(chat("wordy", stream=stream, stop=["three"], n=2))
    assert kit.read("chat", response).text == "One two "
    assert await gateway.backend.idle_within(5)
    assert gateway.backend.left


async def test_model_in_the_path_overrides_the_body(gateway, monkeypatch):
    """Hooks get it, too."""
    hook = use_hook(monkeypatch, Team())
    for model in (None, "tiny", "other"):
        for path in ("/engines/tiny", "/openai/deployments/tiny"):
            response = await gateway.ask(chat(model=model), path=f"{path}/chat/completions")
            assert (response.status, response.json["model"]) == (200, "tiny")
    assert [data["model"] for data in hook.seen] == ["tiny"] * 6


async def test_unexpected_exception_is_a_500_without_its_message(gateway, monkeypatch):
    def fail():
        raise KeyError("a secret")

    monkeypatch.setattr(fallbacks, "selection", fail)
    response = await gateway.ask(chat())
    assert (response.status, response.json["error"]["code"]) == (500, "internal_error")
    assert b"secret" not in response.bodies[0]


async def test_only_streams_get_keep_alive_comments(gateway, monkeypatch):
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


async def test_unknown_parameters_are_ignored_if_the_operator_wants_so(gateway):
    assert (await gateway.ask(chat(num_ctx=4096))).status == 400
    gateway.configure(unknown_parameters="ignore")
    reply = await kit.ask(gateway, "chat", said="hi", num_ctx=4096, think=False, max_tokens=9)
    assert reply.status == 200
    assert reply.own["x-toolgate-ignored-parameters"] == "num_ctx,think"
    assert gateway.backend.requests[-1].sampling.max_tokens == 9
    # Invalid values of known parameters are no unknown parameters.
    assert (await gateway.ask(chat(temperature="hot"))).status == 400


class Team(CustomLogger):
    """A team's callback: refuses and changes requests by their content, and records events."""

    def __init__(self):
        super().__init__()
        self.seen = []
        self.kinds = []
        self.successes = []
        self.payloads = []
        self.failures = []

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        self.seen.append(data)
        self.kinds.append(call_type)
        if "refused" in str(data.get("messages")):
            raise HTTPException(429, {"error": "Not now."}, headers={"retry-after": "3"})
        return data | {"temperature": 0.125}

    async def async_post_call_failure_hook(self, request_data, original_exception, *_, **__):
        is_ours = "'top_p'" in str(original_exception)
        return HTTPException(418, {"error": "A teapot."}) if is_ours else None

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self.successes.append(response_obj)
        self.payloads.append(kwargs["standard_logging_object"])

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        self.failures.append(kwargs["exception"])


def use_hook(monkeypatch, made):
    monkeypatch.setattr(litellm, "callbacks", [made])
    return made


@pytest.fixture
def team(gateway, monkeypatch):
    del gateway
    return use_hook(monkeypatch, Team())


@rotating("metadata", [b'{"project": "p"}', b"{", b"[1]", b"[" * 4_000, b"\xff"], one_in=3)
async def test_a_virtual_keys_request_is_attributed_by_headers(gateway, team, metadata):
    gateway.add_key("sk-1", key_of("sk-1", tags=("web",)))
    noted = [(b"customer-id", b"acme"), (b"tags", b"a,b"), (b"session-id", b"session-1")]
    noted += [(b"spend-logs-metadata", metadata)]
    headers = [(b"x-litellm-" + name, value) for name, value in noted]
    assert (await gateway.ask(chat(), key="sk-1", headers=headers)).status == 200
    await until(lambda: team.payloads)
    [payload] = team.payloads
    assert (payload["end_user"], payload["trace_id"]) == ("acme", "session-1")
    assert {"a", "b", "web"} <= {*payload["request_tags"]}


async def test_stream_left_by_its_client_is_logged_with_the_text_sent(gateway, team):
    gateway.backend.scripts["hang"] = Script(("Hello there",), hang_after=2)
    await gateway.ask(chat("hang", stream=True), leave_after=lambda sent: b'"H' in sent)
    await until(lambda: team.successes or team.failures)
    [logged] = team.successes
    assert "Hello there".startswith(logged.choices[0].message.content)
    assert not team.failures


async def test_hooks_may_refuse_requests_and_replace_errors(gateway, team):
    """As in LiteLLM, with the headers of an HTTPException."""
    response = await gateway.ask(chat("refused"))
    assert (response.status, response.json["error"]["message"]) == (429, "Not now.")
    assert response.headers.get(b"retry-after") == b"3"
    response = await gateway.ask(chat(top_p="hot"))
    assert (response.status, response.json["error"]["message"]) == (418, "A teapot.")


async def test_a_pre_call_hook_may_change_the_request(gateway, team):
    for api in PATHS:
        assert (await kit.ask(gateway, api, said="hi")).status == 200
        assert gateway.backend.requests[-1].sampling.temperature == 0.125
    counted = await kit.ask(gateway, "messages", said="hi", path=COUNT, metadata={"user_id": "u"})
    assert counted.body == {"input_tokens": 11}
    assert team.kinds == ["acompletion", "aresponses", *["anthropic_messages"] * 2]


@APIS
async def test_failure_is_logged_once(gateway, monkeypatch, api):
    logged = log_events(monkeypatch)
    refused = await kit.ask(gateway, api, temperature="hot")
    assert (await logged.failure()).status_code == refused.status == 400
    assert refused.response.headers[b"x-litellm-call-id"]


@STREAM
@APIS
async def test_a_log_event_has_the_response(gateway, monkeypatch, api, stream):
    logged_events = log_events(monkeypatch)
    more = {"thinking": {"type": "adaptive"}} if api == "messages" else {}
    text = "<think>hm</think>\n\nI look." + call("look", {"a": "é"})
    given = {"tools": [function(api, "look", {"type": "object"})], "stream": stream, **more}
    assert (await kit.ask(gateway, api, text, **given)).status == 200
    call_type, logged = await logged_events.success()
    kinds = {"chat": "acompletion", "responses": "aresponses", "messages": "anthropic_messages"}
    assert call_type == kinds[api]
    assert dict(logged.usage)["prompt_tokens"] == 11  # LiteLLM has one form for all APIs
    if api == "responses":
        assert logged.output[-1].name == "look"
        return
    [choice] = logged.choices
    assert (choice.message.content, choice.finish_reason) == ("I look.", "tool_calls")
    assert choice.message.reasoning_content == "hm"
    [made] = choice.message.tool_calls
    assert made.id.startswith("toolu_" if api == "messages" else "call_")
    assert json.loads(made.function.arguments) == {"a": "é"}
    assert logged.usage.prompt_tokens_details.cached_tokens == 3


async def test_a_log_event_has_the_tokens_of_a_compaction(gateway, monkeypatch):
    logged_events = log_events(monkeypatch)
    reply = await kit.ask(gateway, "responses", "They talked.", path=COMPACT)
    assert reply.status == 200, reply.response.bodies
    call_type, logged = await logged_events.success()
    assert (call_type, dict(logged.usage)["prompt_tokens"]) == ("aresponses", 11)


@sampled("api, stream", PATHS, [False, True], one_in=3)
async def test_loggers_in_threads_run_once(gateway, monkeypatch, api, stream):
    """Some of LiteLLM's loggers are not async, such as Langfuse's."""
    seen = []

    def note(logging, *_, **__):
        seen.append(logging.litellm_call_id)

    monkeypatch.setattr(Logging, "success_handler", note)
    monkeypatch.setattr(litellm, "success_callback", ["promptlayer"])
    response = await gateway.ask(body_of(api, stream=stream), path=PATHS[api])
    await until(lambda: seen)
    await asyncio.sleep(AFTERWARDS)
    assert seen == [response.context.call_id]


@pytest.mark.parametrize("api", ["chat", "messages"])
async def test_the_usage_of_a_stream_has_its_cost_if_litellm_adds_it(gateway, monkeypatch, api):
    prices = {"input_cost_per_token": 0.5, "output_cost_per_token": 0.25}
    for name, known in list(litellm.model_cost.items()):
        if "id" in known or name == "toolgate/tiny":  # prices of other tests' rows
            monkeypatch.delitem(litellm.model_cost, name)
    use(monkeypatch, ours(gateway.backend, **prices))
    body = body_of(api, stream=True)
    if api == "chat":
        body["stream_options"] = {"include_usage": True}
    for asked in (True, False):
        monkeypatch.setattr(litellm, "include_cost_in_streaming_usage", asked)
        response = await gateway.ask(body, path=PATHS[api])
        [*_, usage] = [event["usage"] for event in response.events if event.get("usage")]
        tokens = usage.get("completion_tokens", usage.get("output_tokens"))
        assert usage.get("cost") == (pytest.approx(11 * 0.5 + tokens * 0.25) if asked else None)


@pytest.mark.parametrize("api", ["responses", "messages"])
async def test_defaults_of_a_deployment_apply(gateway, monkeypatch, api):
    use(monkeypatch, ours(gateway.backend, max_tokens=7, temperature=0.25, n=2, stop="x"))
    body = body_of(api)
    body.pop("max_tokens", None)
    response = await gateway.ask(body, path=PATHS[api])
    assert response.status == 200
    sampling = gateway.backend.requests[-1].sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.n) == (7, 0.25, 1)
    if api == "responses":
        assert response.json["max_output_tokens"] == 7


def check_last(api, event):
    """Assert that the SDK of the API accepts it as the event of an error."""
    {"chat": lambda _: None, "responses": check_event, "messages": check_error}[api](event)


@APIS
async def test_an_error_in_a_stream_is_its_last_event(gateway, api):
    gateway.backend.scripts["breaks"] = Script(("Hello there you",), error_after=3, pause=0.02)
    response = await gateway.ask(body_of(api, "breaks", stream=True), path=PATHS[api])
    assert response.status == 200
    *before, last = response.events
    assert before
    assert last.get("response", last)["error"]["code"] == "enforcement_failed"
    check_last(api, last)
    assert b"[DONE]" not in b"".join(response.bodies)
    assert not response.messages[-1]["more_body"]
    assert response.context.outcome.failed
    assert response.context.outcome.code == "enforcement_failed"


@APIS
async def test_an_error_after_a_keep_alive_is_an_event(gateway, api):
    keep_alive = dict(zip(PATHS, (each.keep_alive for each in SURFACES), strict=True))[api]
    gateway.backend.scripts["late"] = Script(("x",), error_after=0, queued=TICK * 6)
    response = await gateway.ask(body_of(api, "late", stream=True), path=PATHS[api])
    assert (response.status, response.bodies[0]) == (200, keep_alive)
    event, *failed = (each for each in response.events if each.get("type") != "ping")
    assert event["error"]["code"] == "enforcement_failed"
    check_last(api, event)
    assert [each["type"] for each in failed] == ["response.failed"] * (api == "responses")
    if api == "messages":
        assert event["request_id"] == response.context.request_id
    assert response.context.outcome.failed


async def test_a_count_needs_no_max_tokens_and_reserves_no_output(gateway):
    body = {"model": "tiny", "messages": HI, "system": "Be brief."}
    response = await gateway.ask(body, path=COUNT)
    assert (response.status, response.json) == (200, {"input_tokens": 11})
    assert response.context.meter.used_tokens().total == 0
    prompt = gateway.backend.counts[-1].prompt
    assert prompt.kind == "chat"
    assert [message["role"] for message in prompt.messages] == ["system", "user"]
    assert not gateway.backend.requests
    error = {"message": "Too long.", "code": "context_length_exceeded", "param": "messages"}
    gateway.backend.scripts["long"] = Script((), error_status=400, error=error)
    failed = await kit.ask(gateway, "messages", said="long", path=COUNT)
    assert failed.failure == (400, "context_length_exceeded")
    check_error(failed.response.json)


async def test_other_operations_on_responses_are_refused(gateway):
    for method, name in (("POST", "1"), ("GET", "1/output"), ("GET", "1/")):
        asked = {"path": f"{PATHS['responses']}/resp_{name}", "method": method}
        response = await gateway.ask(b"{}", **asked)
        assert (response.status, response.json["error"]["code"]) == (404, "not_found")
        assert (await gateway.ask(b"{}", **asked, key="sk-wrong")).status == 401
    assert not gateway.host.passed


async def test_a_request_sets_the_room_of_a_required_call_itself(gateway):
    for own in ({}, {"toolgate": {"call_tokens": 0}}, {"toolgate": {"call_tokens": 9}}):
        await gateway.ask(chat(tools=[function("chat", "look")], tool_choice="required", **own))
        enforcement = gateway.backend.requests[-1].enforcement
        assert enforcement.call_tokens == own.get("toolgate", {}).get("call_tokens")
