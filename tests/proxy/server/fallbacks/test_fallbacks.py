"""Fallbacks on the gateway's own route: to models of ours, and to those of other providers."""

import json

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server

from tests.proxy.server.kit import APIS
from tests.support.effort import rotating, sampled
from tests.support.litellm.fallbacks import BROKEN, LIMITED, ask, configure, naming, shown
from tests.support.litellm.guards import MARK, Guardrail, Masking, Unified, use_callback
from tests.support.litellm.log_events import log_events
from tests.support.litellm.own_route import PATHS, asked, body_of, chat, ours
from tests.support.litellm.router import foreign, row, use
from tests.support.servers.fake_backend import KEY, FakeBackend, running
from tests.support.servers.redis_server import response_store
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_proxy.litellm_host.routing import fallbacks
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.server.background import RUNNING
from toolgate_proxy.server.request_scope import own_headers

WAYS = sampled("api, stream", PATHS, [True, False], one_in=3)
ANY_API = rotating("api", PATHS, one_in=3)
MODES = ["pre_call", "during_call", "post_call"]


@pytest.fixture(scope="session")
def large_of_session():
    with running(FakeBackend()) as backend:
        yield backend


@pytest.fixture
def large(gateway, large_of_session, monkeypatch):
    """The backend of the model `large`, to which `tiny` falls back. No comment begins a stream."""
    gateway.configure(keepalive_seconds=0)
    large_of_session.clear()
    large_of_session.scripts["hi"] = Script(("From the large one",))
    gateway.backend.scripts["hi"] = BROKEN
    configure(gateway, large_of_session, monkeypatch, fallbacks=[{"tiny": ["large"]}])
    monkeypatch.setattr(fallbacks, "FIRST_DELAY", 0.0)
    return large_of_session


@pytest.fixture
def hosted(gateway, large, monkeypatch):
    configure(gateway, large, monkeypatch, fallbacks=[{"tiny": ["hosted", "large"]}])
    return large


# --- models of ours -------------------------------------------------------------------------------


@sampled("api, way", PATHS, [(s, m) for s in (True, False) for m in ("tiny", "down")], one_in=3)
async def test_another_model_of_ours_answers(gateway, large, monkeypatch, api, way):
    """The backend refused the request, or can't be reached."""
    stream, model = way
    configure(gateway, large, monkeypatch, fallbacks=[{model: ["large"]}])
    response = await ask(gateway, api, model=model, stream=stream)
    assert (response.status, response.context.model, len(large.requests)) == (200, model, 1)
    assert "From" in shown(response)
    assert '"model":"large"' in shown(response)
    headers = own_headers(response.context)
    assert headers["x-litellm-model-group"] == "large"
    assert headers["x-litellm-attempted-fallbacks"] == "1"
    assert "x-toolgate-fallback" not in headers
    assert not gateway.host.passed
    response = await ask(gateway, api, model="large")
    assert response.status == 200
    named = [name for name in own_headers(response.context) if name.startswith("x-litellm")]
    assert named == ["x-litellm-model-id"]


@WAYS
async def test_the_first_error_is_reported_if_all_models_fail(gateway, large, api, stream):
    full = {"message": "Full.", "code": "backend_unavailable"}
    large.scripts["hi"] = Script(("x",), error_status=503, error=full)
    response = await ask(gateway, api, stream=stream)
    assert (response.status, len(large.requests)) == (502, 1)
    assert "It broke." in shown(response)
    assert "x-litellm-model-group" not in own_headers(response.context)


@WAYS
async def test_a_response_that_breaks_off_moves_unless_a_part_was_sent(gateway, large, api, stream):
    gateway.backend.scripts["hi"] = Script(("Hello there you",), error_after=3, pause=0.02)
    response = await ask(gateway, api, stream=stream)
    if stream:
        assert response.context.outcome.code == "enforcement_failed"
        assert large.requests == []
    else:
        assert response.status == 200
        assert "From the large one" in shown(response)
        assert "Hello" not in shown(response)


@ANY_API
async def test_neither_an_invalid_request_nor_a_count_of_tokens_moves(gateway, large, api):
    assert (await ask(gateway, api, temperature="hot")).status == 400
    counts = {"responses": "/v1/responses/input_tokens", "messages": "/v1/messages/count_tokens"}
    for named, path in counts.items():
        assert (await gateway.ask(body_of(named), path=path)).status == 502
    assert (large.requests, large.counts) == ([], [])


@WAYS
async def test_retry_policy_repeats_the_request_before_fallbacks(
    gateway, large, monkeypatch, api, stream
):
    error = {"message": "It broke.", "code": "enforcement_failed"}
    broken = Script(("x",), error_status=500, error=error)
    for allowed, failures, model in ((2, 2, None), (1, 2, "large")):
        policy = {"InternalServerErrorRetries": allowed}
        settings = {"fallbacks": [{"tiny": ["large"]}], "retry_policy": policy}
        configure(gateway, large, monkeypatch, **settings)
        gateway.backend.clear()
        gateway.backend.turns[:] = [*[broken] * failures, Script(("Hello there",))]
        response = await ask(gateway, api, stream=stream)
        assert (response.status, response.context.fallback) == (200, model)
        assert len(gateway.backend.requests) == allowed + 1


# --- fallbacks that a request names ---------------------------------------------------------------


@WAYS
async def test_a_request_names_its_own_fallbacks(gateway, large, monkeypatch, api, stream):
    configure(gateway, large, monkeypatch)
    own = [{"model": "down"}, {"model": "large", "temperature": 0.25}]
    response = await ask(gateway, api, stream=stream, fallbacks=own)
    assert response.status == 200
    assert own_headers(response.context)["x-litellm-attempted-fallbacks"] == "2"
    assert large.requests[0].sampling.temperature == 0.25
    refused = await ask(gateway, api, fallbacks=[{"api_base": "http://x"}])
    assert (refused.status, refused.context.outcome.code) == (400, "invalid_request")


@ANY_API
async def test_a_fallback_of_a_request_sets_parameters_only(gateway, large, api):
    for model in ("large", "hosted"):
        refused = await ask(gateway, api, fallbacks=[{"model": model, "api_base": "http://x"}])
        assert (refused.status, refused.context.outcome.code) == (400, "unsupported_parameter")
        assert not gateway.backend.requests
    unknown = await ask(gateway, api, fallbacks=[{"model": "large", "no_parameter": 1}])
    assert (unknown.status, large.requests) == (502, [])
    assert not gateway.host.passed


@sampled("form, limited", naming(""), LIMITED, one_in=3)
async def test_a_key_never_gets_a_fallback_that_it_names_and_may_not_use(
    gateway, large, form, limited
):
    model, terms = limited
    gateway.add_key("sk-1", key_of("sk-1", **terms))
    refused = await ask(gateway, "chat", key="sk-1", fallbacks=naming(model)[form])
    assert refused.status >= 400
    assert not [*large.requests, *gateway.host.passed]


@APIS
async def test_a_key_must_be_allowed_the_fallbacks_that_it_names(gateway, large, monkeypatch, api):
    """As in LiteLLM, it needs no permission for configured ones, unless a setting requires it."""
    gateway.add_key("sk-1", key_of("sk-1", models=("tiny",)))
    refused = await ask(gateway, api, key="sk-1", fallbacks=["large"])
    assert (refused.status, refused.context.outcome.code) == (403, "permission_denied")
    assert not gateway.backend.requests
    assert (await ask(gateway, api, key="sk-1", fallbacks=["tiny"])).status == 502
    assert (await ask(gateway, api, key="sk-1")).status == 200
    monkeypatch.setitem(proxy_server.general_settings, "enforce_fallback_model_access", True)
    assert (await ask(gateway, api, key="sk-1")).status == 502


# --- other providers, which LiteLLM serves --------------------------------------------------------


@WAYS
async def test_another_providers_model_answers_through_litellm(gateway, hosted, api, stream):
    response = await ask(gateway, api, stream=stream, fallbacks=None)
    assert response.status == 299
    [passed] = gateway.host.passed
    sent = body_of(api, stream=stream, model="hosted", disable_fallbacks=True)
    assert (passed.path, json.loads(passed.body)) == (PATHS[api], sent)
    assert b"content-length" not in passed.headers
    assert passed.headers[b"x-litellm-call-id"].decode() == response.context.call_id
    headers = own_headers(response.context)
    assert headers["x-toolgate-fallback"] == "not-enforced"
    assert headers["x-toolgate-enforced"] == "none"
    assert headers["x-litellm-model-group"] == "hosted"
    assert hosted.requests == []


@WAYS
async def test_the_next_model_is_tried_if_litellm_returns_an_error(gateway, hosted, api, stream):
    gateway.host.error = 500
    response = await ask(gateway, api, stream=stream)
    assert response.status == 200
    assert "From" in shown(response)
    headers = own_headers(response.context)
    assert headers["x-litellm-attempted-fallbacks"] == "2"
    assert "x-toolgate-fallback" not in headers
    assert headers["x-toolgate-enforced"] == "none"  # no tools


@APIS
async def test_guardrails_of_the_first_model_hold_for_another_providers(
    gateway, hosted, monkeypatch, api
):
    """Otherwise what they mask would be sent to it."""
    down = f"http://127.0.0.1:{free_port()}"
    params = {"api_base": down, "api_key": KEY, "guardrails": ["masking"]}
    use(monkeypatch, row("down", group="tiny", **params), foreign("hosted"))
    use_callback(monkeypatch, Masking("John", "NAME"))
    assert (await ask(gateway, api, fallbacks=["hosted"], guardrails=["other"])).status == 299
    [passed] = gateway.host.passed
    assert json.loads(passed.body)["guardrails"] == ["other", "masking"]


@APIS
async def test_keys_for_enforced_calls_only_skip_other_providers(gateway, hosted, api):
    gateway.add_key("sk-1", key_of("sk-1", enforced_only=True))
    response = await ask(gateway, api, key="sk-1")
    assert (response.status, response.context.fallback) == (200, "large")
    assert not gateway.host.passed


async def test_model_in_the_path_is_replaced(gateway, hosted):
    response = await gateway.ask(chat(model=None), path="/engines/tiny/chat/completions")
    assert response.status == 299
    [passed] = gateway.host.passed
    assert passed.path == "/engines/hosted/chat/completions"
    assert json.loads(passed.body)["model"] == "hosted"


async def test_a_disconnected_client_ends_a_request_at_litellm(gateway, hosted):
    gateway.host.pause = 30
    response = await gateway.ask(chat(), leave_after=lambda _: gateway.host.passed)
    assert (response.messages, len(gateway.host.passed)) == ([], 1)


async def test_another_provider_gets_the_turns_of_a_stored_response_and_no_sealed_reasoning(
    gateway, hosted
):
    reasoning = {"type": "reasoning", "summary": [], "encrypted_content": "sealed"}
    message = {"role": "user", "content": "hi"}
    given = [message, reasoning, {"type": "message", "id": "msg_1", **message}]
    assert (await ask(gateway, "responses", input=given)).status == 299
    sent = json.loads(gateway.host.passed.pop().body)
    assert sent["input"] == [message, {"type": "message", **message}]
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "sealed"}
    text = {"type": "text", "text": "Hello"}
    given = [message, {"role": "assistant", "content": [thinking, text]}, message]
    asked = {"messages": given, "thinking": {"type": "adaptive"}}
    assert (await ask(gateway, "messages", **asked)).status == 299
    sent = json.loads(gateway.host.passed.pop().body)
    assert sent["messages"][1] == {"role": "assistant", "content": [text]}
    assert "thinking" not in sent
    gateway.backend.scripts["first"] = Script(("Well.",))
    first = await ask(gateway, "responses", input="first")
    more = {"previous_response_id": first.json["id"]}
    assert (await ask(gateway, "responses", input="hi", **more)).status == 299
    sent = json.loads(gateway.host.passed.pop().body)
    assert "previous_response_id" not in sent
    assert [item["role"] for item in sent["input"]] == ["user", "assistant", "user"]
    assert not [item for item in sent["input"] if "id" in item]


async def test_a_response_in_the_background_goes_on_to_our_models_only(
    gateway, hosted, redis_at_hand
):
    gateway.here.responses = response_store(redis_at_hand)
    response = await ask(gateway, "responses", background=True)
    assert response.json["status"] == "queued"
    await until(lambda: not RUNNING)
    stored = await gateway.here.responses.find("master key", response.json["id"])
    assert stored is not None
    assert (stored.body["status"], stored.body["model"]) == ("completed", "large")
    assert not gateway.host.passed


# --- guardrails and hooks -------------------------------------------------------------------------


@pytest.fixture
def guarded(gateway, large, monkeypatch):
    """The model `large` has guardrails of its own."""
    model = ours(large, "large", guardrails=["no-names", "masking"])
    model["model_info"]["id"] = "large"
    retried = {"large": {"InternalServerErrorRetries": 1}}
    settings = {"fallbacks": [{"tiny": ["large"]}], "model_group_retry_policy": retried}
    use(monkeypatch, ours(gateway.backend), model, **settings)
    return large


@sampled("api, mode", PATHS, MODES, one_in=3)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_guardrail_of_the_fallback_refuses_in_its_mode_there_only(
    gateway, guarded, monkeypatch, api, mode, stream
):
    use_callback(monkeypatch, Guardrail(mode, default_on=False))
    gateway.backend.scripts["fine"] = Script(("Hello there",))
    assert (await ask(gateway, api, content="fine", stream=stream)).status == 200
    assert guarded.requests == []
    response = await ask(gateway, api, stream=stream)
    assert (response.status, "Not on Mondays." in shown(response)) == (400, True)
    assert "From" not in shown(response)
    assert bool(guarded.requests) == (mode != "pre_call")


@APIS
async def test_request_that_it_changes_is_retried_as_changed(gateway, guarded, monkeypatch, api):
    use_callback(monkeypatch, Masking("John", "NAME"))
    broken = Script(("x",), error_status=500, error={"message": "!", "code": "enforcement_failed"})
    for backend in (gateway.backend, guarded):
        backend.scripts |= {"I am John": broken, "I am NAME": broken}
    await ask(gateway, api, content="I am John")
    assert asked(gateway.backend) == ["I am John"]
    assert asked(guarded) == ["I am NAME", "I am NAME"]


@APIS
async def test_guardrail_sees_the_texts_of_a_requested_fallback(gateway, guarded, monkeypatch, api):
    """It needs no guardrail of its own."""
    guarded.scripts |= dict.fromkeys(("hidden", MARK), Script(("From the large one",)))
    told = "input" if api == "responses" else "messages"
    fallback = {"model": "large", told: [{"role": "user", "content": MARK}]}
    use_callback(monkeypatch, Unified())
    assert (await ask(gateway, api, fallbacks=[fallback])).status == 200
    assert asked(guarded) == ["hidden"]
    use_callback(monkeypatch, Unified("during_call"))
    response = await ask(gateway, api, fallbacks=[fallback])
    assert (response.status, "Not on Mondays." in shown(response)) == (400, True)


class Fallen(CustomLogger):
    """Records the events of fallbacks."""

    def __init__(self):
        super().__init__()
        self.events = []
        self.hooks = 0

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        self.hooks += 1
        return data

    async def log_success_fallback_event(self, original_model_group, kwargs, original_exception):
        self.events.append(("success", original_model_group, kwargs["model"]))

    async def log_failure_fallback_event(self, original_model_group, kwargs, original_exception):
        self.events.append(("failure", original_model_group, kwargs["model"]))


@WAYS
async def test_both_models_are_logged(gateway, large, monkeypatch, api, stream):
    events, fallen = log_events(monkeypatch), Fallen()
    litellm.callbacks.append(fallen)
    configure(gateway, large, monkeypatch, fallbacks=[{"tiny": ["down", "large"]}])
    assert (await ask(gateway, api, stream=stream)).status == 200
    _, logged = await events.success()
    assert "large" in str(logged)
    assert (await events.failure()).status_code == 502
    assert fallen.events == [("failure", "tiny", "down"), ("success", "tiny", "large")]
    assert fallen.hooks == 1


async def test_failure_of_all_models_is_logged_once(gateway, large, monkeypatch):
    events = log_events(monkeypatch)
    large.scripts["hi"] = BROKEN
    assert (await ask(gateway, "chat")).status == 502
    assert (await events.failure()).status_code == 502
