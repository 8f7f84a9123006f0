"""Hooks and guardrails that refuse, read and change requests, responses and calls on each API."""

import re

import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy.guardrails.guardrail_hooks.litellm_content_filter import ContentFilterGuardrail
from litellm.types.guardrails import BlockedWord, ContentFilterAction

from tests.proxy.server.kit import APIS, STREAM, function
from tests.support.apis.outcomes import RANDOM
from tests.support.effort import rotating, sampled
from tests.support.litellm.fallbacks import ask, shown
from tests.support.litellm.guards import (
    HIDDEN,
    SCHEMA,
    TOOLS,
    Guardrail,
    Masking,
    Team,
    WholeGuardrail,
    changed,
    refusal,
    use_callback,
)
from tests.support.litellm.log_events import log_events
from tests.support.litellm.own_route import PATHS, asked, ours
from tests.support.litellm.router import use
from tests.support.servers.script import Script, call

WAYS = sampled("api, stream", PATHS, [True, False], one_in=3)
ANY_API = rotating("api", PATHS, one_in=3)
MODES = ["pre_call", "during_call", "post_call"]
CALL_TYPES = {"chat": "acompletion", "responses": "aresponses", "messages": "anthropic_messages"}


@pytest.fixture(autouse=True)
def _script(gateway):
    """No comment begins a stream, and the model can be told to call a tool."""
    gateway.configure(keepalive_seconds=0)
    gateway.backend.scripts["call"] = Script((call("look", {"a": "ZZZZ"}),))


@pytest.fixture
def models(gateway, monkeypatch):
    """The model `tiny` has guardrails, and `free` none."""
    guarded = ours(gateway.backend, guardrails=["no-names", "whole", "masking"])
    free = ours(gateway.backend, "free")
    free["model_info"]["id"] = "free"
    use(monkeypatch, guarded, free)


def hidden(text):
    return text.replace("Hello", HIDDEN).replace("Hel", HIDDEN[:3]).replace("lo ", "xx ")


def unchanged(text):
    return text.replace("Goodbye", "Hello")


def replacing(old, new):
    return lambda text: text.replace(old, new)


def refused(response):
    """Whether the client got the refusal, and nothing of the response."""
    text = shown(response)
    return response.status == 400 and "Not on Mondays." in text and "Hel" not in text


# --- guardrails -----------------------------------------------------------------------------------

OFF = {"default_on": False}
RUNS = [
    ({}, {"model": "free"}, True),
    (OFF, {"model": "free"}, False),
    (OFF, {"model": "free", "guardrails": ["another"]}, False),
    (OFF, {"model": "free", "guardrails": ["no-names"]}, True),
    (OFF, {}, True),
    (OFF | {"name": "mine"}, {}, False),
    (OFF | {"name": "mine"}, {"guardrails": ["mine"]}, True),
]
"""A guardrail, a request, and whether the guardrail runs for it: for all requests, for those that
name it, for those of the models that name it, or for both."""


@sampled("api, mode", PATHS, MODES, one_in=3)
@STREAM
async def test_guardrail_refuses_in_its_mode_where_it_runs(
    gateway, models, monkeypatch, api, mode, stream
):
    for made, params, runs in RUNS:
        gateway.backend.requests.clear()
        use_callback(monkeypatch, Guardrail(mode, **made))
        response = await ask(gateway, api, stream=stream, **params)
        assert refused(response) == runs == (response.status != 200), (made, params)
        assert bool(gateway.backend.requests) == (not runs or mode != "pre_call")
    assert not gateway.host.passed


@APIS
async def test_stream_is_held_for_a_guardrail_that_reads_whole_responses(
    gateway, models, monkeypatch, api
):
    """LiteLLM sends the stream, and runs the guardrail for its log."""
    guardrail = WholeGuardrail()
    use_callback(monkeypatch, guardrail)
    assert refused(await ask(gateway, api, stream=True))
    guardrail.default_on = False
    for stream in (True, False):
        assert refused(await ask(gateway, api, stream=stream))
        assert (await ask(gateway, api, model="free", stream=stream)).status == 200
    use_callback(monkeypatch, WholeGuardrail(unchanged))
    assert (await ask(gateway, api, stream=True)).status == 200
    use_callback(monkeypatch, WholeGuardrail(hidden))
    other = await ask(gateway, api, stream=True)
    assert (other.status, "without 'stream'" in shown(other)) == (400, True)
    assert (await ask(gateway, api)).status == 200


@APIS
async def test_guardrail_of_a_model_changes_its_requests(gateway, models, monkeypatch, api):
    use_callback(monkeypatch, Masking("John", "NAME"))
    gateway.backend.scripts |= dict.fromkeys(("I am NAME", "I am John"), Script(("Hello",)))
    for model, sent in (("tiny", "I am NAME"), ("free", "I am John")):
        await ask(gateway, api, model=model, content="I am John")
        assert asked(gateway.backend)[-1] == sent


async def test_metadata_of_the_client_stay_as_they_are(gateway, models, monkeypatch):
    """LiteLLM notes in them which guardrails ran."""
    use_callback(monkeypatch, Masking("John", "NAME"))
    response = await ask(gateway, "responses", metadata={"a": "b"})
    assert response.json["metadata"] == {"a": "b"}


# --- hooks of responses ---------------------------------------------------------------------------


COUNTED = re.compile(r'(?<="type":"message_start").*?"output_tokens":\d+')
"""The begin of a stream has as many tokens as have arrived."""


@WAYS
async def test_a_response_that_no_hook_changes_is_sent_as_it_was_made(
    gateway, monkeypatch, api, stream
):
    without = await ask(gateway, api, stream=stream)
    team = Team()
    use_callback(monkeypatch, team)
    response = await ask(gateway, api, stream=stream)
    assert response.status == 200
    texts = (COUNTED.sub("", RANDOM.sub("-", shown(each))) for each in (response, without))
    assert len({*texts}) == 1
    assert team.hooks == ["moderation", "stream" if stream else "success"]
    assert not gateway.host.passed


@APIS
async def test_hooks_get_litellms_forms(gateway, monkeypatch, api):
    use_callback(monkeypatch, team := Team())
    await ask(gateway, api)
    data, response = team.seen
    kinds = {"chat": "ModelResponse", "responses": "ResponsesAPIResponse", "messages": "dict"}
    assert type(response).__name__ == kinds[api]
    assert "Hello there" in str(response)
    assert data["model"] == "tiny"
    assert "hi" in str(data.get("messages") or data.get("input"))
    use_callback(monkeypatch, team := Team())
    await ask(gateway, api, stream=True)
    events = {type(item).__name__ for item in team.seen[1:]}
    if api == "responses":
        assert {"ResponseCreatedEvent", "OutputTextDeltaEvent", "ResponseCompletedEvent"} <= events
    else:
        assert events == {"ModelResponseStream" if api == "chat" else "bytes"}


@WAYS
async def test_a_hook_changes_the_text(gateway, monkeypatch, api, stream):
    use_callback(monkeypatch, Team(hidden))
    response = await ask(gateway, api, stream=stream)
    assert response.status == 200
    assert "Hel" not in shown(response)
    assert HIDDEN[:3] in shown(response)


@ANY_API
async def test_changed_response_is_logged_as_it_was_sent(gateway, monkeypatch, api):
    events = log_events(monkeypatch)
    use_callback(monkeypatch, events, Team(hidden))
    await ask(gateway, api)
    _, logged = await events.success()
    assert HIDDEN in str(logged)
    assert "Hello" not in str(logged)


async def test_changed_response_is_not_stored(gateway, monkeypatch):
    for change, status in ((None, 200), (hidden, 404)):
        for stream in (True, False):
            use_callback(monkeypatch, Team(change))
            response = await ask(gateway, "responses", stream=stream)
            made = response.events[-1]["response"] if stream else response.json
            path = f"/v1/responses/{made['id']}"
            assert (await gateway.ask(b"", path=path, method="GET")).status == status


@sampled("api, way", PATHS, [(True, 0), (True, 1), (False, 0), (False, 1)], one_in=3)
async def test_a_refused_response_is_not_sent(gateway, monkeypatch, api, way):
    stream, moderates = way
    hook = "moderation" if moderates else "stream" if stream else "success"
    use_callback(monkeypatch, Team(refuses=hook))
    assert refused(await ask(gateway, api, stream=stream))


@APIS
async def test_a_stream_that_is_refused_later_ends_with_the_error(gateway, monkeypatch, api):
    gateway.backend.scripts["hi"] = Script(("Hello there",), pause=0.02)
    use_callback(monkeypatch, Team(refuses="stream", passes=3))
    response = await ask(gateway, api, stream=True)
    assert (response.status, response.context.outcome.failed) == (200, True)
    assert "Not on Mondays." in shown(response)
    assert "there" not in shown(response)


# --- calls and formatted texts: an invalid change is never sent -----------------------------------

EACH_WAY = [(api, stream) for api in PATHS for stream in (True, False)]


@sampled("way, change", EACH_WAY, [("Z", "Q", "QQ"), ("Hello", "Bye", "ZZ")], one_in=2)
async def test_valid_change_of_a_call_is_sent(gateway, monkeypatch, way, change):
    (api, stream), (old, new, sent) = way, change
    use_callback(monkeypatch, Team(replacing(old, new)))
    response = await ask(gateway, api, content="call", stream=stream, tools=TOOLS[api])
    assert (response.status, response.context.outcome.failed) == (200, False)
    assert sent in shown(response)
    assert sent == "ZZ" or "ZZ" not in shown(response)


@sampled("way, change", EACH_WAY, [("Z", "Y"), ("look", "leap"), ("look", "")], one_in=3)
async def test_invalid_change_of_a_call_is_an_error(gateway, monkeypatch, way, change):
    api, stream = way
    use_callback(monkeypatch, Team(replacing(*change)))
    response = await ask(gateway, api, content="call", stream=stream, tools=TOOLS[api])
    assert response.context.outcome.code == "tool_schema_violation"
    sent, _, error = shown(response).partition("A callback of the gateway")
    assert error
    assert "YY" not in sent or "function_call" not in sent  # the tools are in the first event
    assert '"name":"leap","arguments"' not in sent
    assert '"name":"","arguments"' not in sent


@STREAM
async def test_text_of_a_custom_tool_may_change(gateway, monkeypatch, stream):
    gateway.backend.scripts["call"] = Script((call("patch", {"input": "ZZZZ"}),))
    tools = [{"type": "custom", "custom": {"name": "patch"}}]
    for new in ("Z", "Y"):
        use_callback(monkeypatch, Team(replacing("Z", new)))
        response = await ask(gateway, "chat", content="call", tools=tools, stream=stream)
        assert (response.status, response.context.outcome.failed) == (200, False)
        assert new in shown(response)
    assert "ZZ" not in shown(response)


@WAYS
async def test_changed_content_must_satisfy_its_format(gateway, monkeypatch, api, stream):
    gateway.backend.scripts["call"] = Script(('{"a": "ZZZZ"}',))
    named = {"name": "x", "schema": SCHEMA}
    formats = {
        "chat": {"response_format": {"type": "json_schema", "json_schema": named}},
        "responses": {"text": {"format": {"type": "json_schema", **named}}},
        "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    }
    for new, failed in (("Q", False), ("Y", True)):
        use_callback(monkeypatch, Team(replacing("Z", new)))
        response = await ask(gateway, api, content="call", stream=stream, **formats[api])
        ended = response.context.outcome
        assert (response.status >= 400 or ended.failed) == failed, shown(response)


# --- hooks right before and after a deployment ----------------------------------------------------


class AtDeployment(CustomLogger):
    def __init__(self, change=None, **sets):
        super().__init__()
        self._change = change
        self._sets = sets
        self.seen = []
        self.fails = False

    async def async_pre_call_deployment_hook(self, kwargs, call_type):
        self.seen.append((kwargs["model"], call_type.value))
        if self.fails:
            raise refusal()
        return kwargs | self._sets

    async def async_post_call_success_deployment_hook(self, request_data, response, call_type):
        return None if self._change is None else changed(response, self._change)

    async def async_post_call_streaming_deployment_hook(
        self, request_data, response_chunk, call_type
    ):
        return None if self._change is None else changed(response_chunk, self._change)


@WAYS
async def test_hook_before_a_deployment_changes_parameters_or_refuses(
    gateway, monkeypatch, api, stream
):
    """It does not change whether the response is streamed."""
    callback = AtDeployment(temperature=0.25, stream=not stream, model="another")
    use_callback(monkeypatch, callback)
    response = await ask(gateway, api, stream=stream)
    assert response.status == 200
    assert response.headers[b"content-type"].startswith(b"text/event-stream") == stream
    [request] = gateway.backend.requests
    assert request.sampling.temperature == 0.25
    assert callback.seen == [("toolgate/tiny", CALL_TYPES[api])]
    assert not gateway.host.passed
    callback.fails = True
    assert refused(await ask(gateway, api, stream=stream))
    assert len(gateway.backend.requests) == 1


@WAYS
async def test_hook_after_a_deployment_changes_the_text_and_its_calls_are_validated(
    gateway, monkeypatch, api, stream
):
    use_callback(monkeypatch, AtDeployment(replacing("Hel", "Jel")))
    response = await ask(gateway, api, stream=stream)
    assert (response.status, "Jel" in shown(response), "Hel" in shown(response)) == (200, True, 0)
    for new, code in (("Q", None), ("Y", "tool_schema_violation")):
        use_callback(monkeypatch, AtDeployment(replacing("Z", new)))
        response = await ask(gateway, api, content="call", stream=stream, tools=TOOLS[api])
        assert response.context.outcome.code == code


@ANY_API
async def test_hook_that_fails_at_a_chunk_changes_nothing(gateway, monkeypatch, api):
    def fails(text):
        raise refusal()

    use_callback(monkeypatch, AtDeployment(fails))
    for stream in (True, False):
        response = await ask(gateway, api, stream=stream)
        assert (response.status, response.context.outcome.failed) == (200, False)
        assert "there" in shown(response)


# --- LiteLLM's own content filter -----------------------------------------------------------------

A_TEXT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TEXT = re.compile(r'"(?:content|text|delta|arguments|partial_json)": ?"((?:[^"\\]|\\.)*)"')


def said(response):
    """The response's text, and after it what its events say, joined: a stream may cut a word."""
    return shown(response) + "".join(TEXT.findall(shown(response)))


def content_filter(name, mode, *, default_on=False, action="BLOCK"):
    word = BlockedWord(keyword=f"{name}ed", action=ContentFilterAction(action))
    return ContentFilterGuardrail(
        guardrail_name=name, blocked_words=[word], event_hook=mode, default_on=default_on
    )


@pytest.fixture
def filters(gateway, monkeypatch):
    guarded = ours(gateway.backend, "guarded", guardrails=["request"])
    guarded["model_info"]["id"] = "guarded"
    use(monkeypatch, ours(gateway.backend), guarded)
    use_callback(
        monkeypatch,
        content_filter("ask", "pre_call", default_on=True),
        content_filter("answer", "post_call", default_on=True),
        content_filter("request", "post_call"),
        content_filter("mask", "post_call", action="MASK"),
    )
    gateway.backend.scripts |= {
        "bad": Script(("It was answered.",)),
        "named": Script(("It was requested.",)),
        "text": Script(("It was masked.",)),
        "argument": Script((call("look", {"a": "masked"}),)),
        "arguments": Script((call("look", {"a": "answered"}),)),
    }


async def filtered(gateway, api, content, **params):
    tools = [function(api, "look", A_TEXT)]
    return await ask(gateway, api, content=content, tools=tools, **params)


@APIS
@STREAM
@pytest.mark.usefixtures("filters")
async def test_requests_and_responses_with_blocked_words_end_with_an_error(gateway, api, stream):
    """Neither a text nor the arguments of a call are sent; others pass."""
    for model in ("tiny", "guarded"):
        response = await filtered(gateway, api, "hi", stream=stream, model=model)
        assert response.status == 200
        assert "there" in said(response)
    before = len(gateway.backend.requests)
    assert (await filtered(gateway, api, "I asked", stream=stream)).status in (400, 403)
    assert len(gateway.backend.requests) == before
    for content in ("bad", "arguments"):
        refused = await filtered(gateway, api, content, stream=stream)
        assert refused.status in (400, 403) or stream, refused.bodies
        assert "error" in shown(refused)
        assert '"answered"' not in said(refused).replace("\\", "").replace("'answered'", "")
        assert "It was answered" not in said(refused)
    # A request or a model may name a filter.
    assert (await filtered(gateway, api, "named", stream=stream)).status == 200
    for more in ({"guardrails": ["request"]}, {"model": "guarded"}):
        named = await filtered(gateway, api, "named", stream=stream, **more)
        assert named.status in (400, 403) or stream, named.bodies
        assert "error" in shown(named)
        assert "It was requested" not in said(named)


@STREAM
@pytest.mark.parametrize(
    ("api", "content"),
    [*((api, "text") for api in PATHS), ("chat", "argument"), ("responses", "argument")],
)
@pytest.mark.usefixtures("filters")
async def test_masked_words_are_not_sent(gateway, api, stream, content):
    """A stream in which the guardrail can't mask them is refused. LiteLLM itself masks no arguments
    of Messages."""
    response = await filtered(gateway, api, content, stream=stream, guardrails=["mask"])
    assert "masked" not in said(response)
    if not stream:
        assert response.status == 200, response.bodies
        assert "REDACTED" in shown(response)
    elif (api, content) != ("chat", "text"):
        assert "error" in shown(response)
