"""The judges of the long tests find what is wrong with answers, and nothing in right ones."""

import asyncio
import dataclasses
import json
import random
from random import Random
from typing import Any

import httpx
import pytest

from tests.long.chaos import soak
from tests.long.chaos.load import ENDS, body_of, is_complete, make_ask, send
from tests.long.chaos.soak import PER_MINUTE, Attacks, LimitProbe, Sample, most_within, slope
from tests.long.fuzz.checks import Request, check_response, unasked_reasoning
from tests.long.hostile_calls import ANSWERS, Load, tool_set
from tests.long.hostile_loops import run as loops
from tests.long.hostile_loops.model import DAMAGES, LOOP, SCHEMAS, RandomModel, instance, is_valid
from tests.long.judgement import all_violations
from tests.long.outcomes import Outcome
from tests.support.apis import chat_events, replies
from tests.support.apis.chat_events import events
from tests.support.apis.messages_api import CLIENT, HI
from tests.support.apis.read_responses import read_events
from tests.support.apis.replies import PATHS
from tests.support.schemas.judge import schema_violation
from tests.support.servers.script import Script, call
from toolgate_proxy.api.surfaces import MESSAGES, RESPONSES
from toolgate_verify.asking.ask import Ask
from toolgate_verify.reading.answer import Answer, Call, Usage
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
Body = dict[str, Any]

# --- the judge of all APIs ---

CASE = Ask(
    tools=(Tool("look", "Looks.", SCHEMA),),
    choice="required",
    parallel=False,
    reasoning="medium",
    max_tokens=100,
    extra={"toolgate": {"repetition_guard": False}},  # which could cut a response
)
CALL = Call("1", "look", '{"a": 1}')
RIGHT = Answer(reasoning="hm", calls=[CALL], finish="calls", usage=Usage(9, 9))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, None),
        ({"calls": [], "finish": "stop"}, "no call although required"),
        ({"calls": [Call("1", "look", "{}")]}, "arguments violate the schema"),
        ({"calls": [Call("1", "walk", "{}")]}, "call of a tool that is not allowed"),
        ({"calls": [CALL, CALL]}, "more than one call"),
        (
            {"calls": [dataclasses.replace(CALL, complete=False)]},
            "incomplete call of a complete response",
        ),
        ({"finish": "stop"}, "wrong reason of the end"),
        ({"text": "</think>"}, "markup in content"),
        ({"usage": Usage(9, 101)}, "implausible usage"),
        ({"usage": None}, "implausible usage"),
        ({"finish": "length"}, "cut before the maximum"),
    ],
)
def test_the_judge_finds_a_broken_answer(changed, expected):
    answer = dataclasses.replace(RIGHT, **changed)
    found = [kind for kind, _ in all_violations(Api.MESSAGES, CASE, answer)]
    assert expected in found if expected else not found


@pytest.mark.parametrize(
    ("property_", "value", "valid"),
    [
        # A float does not tell whether a large number is a multiple.
        *[({"type": "number", "multipleOf": 5}, value, value != 16) for value in (15, 16)],
        *[({"type": "number", "multipleOf": 5}, value, True) for value in (1.25e24, float("inf"))],
        # Formats are assertions. If not, the text `null` would satisfy both parts, and be invalid.
        *[
            ({"oneOf": [{"type": "string", "format": "date-time"}, {"const": "null"}]}, *row)
            for row in (("2026-11-26T10:00:00Z", True), ("2026-11-26 noon", False), ("null", True))
        ],
        ({"type": "string"}, 7, False),
    ],
)
def test_arguments_are_validated(property_, value, valid):
    schema = {"type": "object", "properties": {"x": property_}}
    assert (schema_violation(schema, {"x": value}) is None) == valid


# --- fuzz ---

MEANING = {
    "max_tokens": 100,
    "tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}],
    "tool_choice": "auto",
}
TEXT = "<think>\nhm\n</think>\n\nI look.\n" + call("look", {"a": 1})


def answered(api):
    """The events and the body of a right answer."""
    if api == Api.MESSAGES:
        tool = {"name": "look", "input_schema": SCHEMA}
        body = {"max_tokens": 100, "messages": HI, "thinking": {"type": "adaptive"}}
        surface = MESSAGES
    else:
        tool = {"type": "function", "name": "look", "parameters": SCHEMA}
        body, surface = {"input": "hi"}, RESPONSES
    asked = chat_events.read(surface, {**body, "tools": [tool]}, client=CLIENT)
    data, whole = chat_events.answered(asked, events(TEXT))
    return read_events(data), whole


def sent(made):
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in made).encode()


def found(body, **asked):
    """What the fuzzer finds in a message."""
    request = Request({"thinking": {"type": "adaptive"}, **asked}, MEANING)
    [made] = replies.read(Api.MESSAGES, json.dumps(body).encode(), streamed=False)
    return check_response([made], request) + unasked_reasoning(Api.MESSAGES, made, request)


def test_nothing_is_found_in_a_right_answer():
    made, body = answered(Api.MESSAGES)
    assert found(body) == []
    [read] = replies.read(Api.MESSAGES, sent(made), streamed=True)
    assert read.body == body
    made, body = answered(Api.RESPONSES)
    [read] = replies.read(Api.RESPONSES, sent(made), streamed=True)
    assert read.body["output"] == body["output"]


@pytest.mark.parametrize(
    ("change", "asked", "expected"),
    [
        (lambda body: body, {"thinking": {"type": "disabled"}}, "reasoning that was not asked for"),
        (lambda body: _with(body, 2, input={"a": "x"}), {}, "is not of type 'number'"),
        (lambda body: _with(body, 2, name="walk"), {}, "not allowed: walk"),
        (lambda body: _with(body, 1, text="<tool_call>"), {}, "markup in content: <tool_call>"),
    ],
)
def test_a_broken_message_is_found(change, asked, expected):
    assert any(expected in each for each in found(change(answered(Api.MESSAGES)[1]), **asked))


def _with(body, at, **changed):
    content = [
        block | changed if place == at else block for place, block in enumerate(body["content"])
    ]
    return body | {"content": content}


@pytest.mark.parametrize("api", [Api.MESSAGES, Api.RESPONSES])
@pytest.mark.parametrize("lost", [0, 3, -2, -1])
def test_a_stream_without_one_of_its_events_is_found(api, lost):
    made, _ = answered(api)
    del made[lost]
    with pytest.raises((AssertionError, ValueError, LookupError)):
        replies.read(api, sent(made), streamed=True)


# --- hostile calls ---


def outcome_of(answer):
    """The outcome of one set of tools with a gateway that answers so."""

    def handle(request):
        body = json.loads(request.content)
        if request.url.path == "/toolgate/schema":
            names = [tool["function"]["name"] for tool in body["tools"]]
            engines = [{"name": name, "engine": "xgrammar"} for name in names]
            return httpx.Response(200, json={"backends": [{"tools": engines}]})
        return answer(request, body)

    outcome = Outcome(2)

    async def send_all():
        transport = httpx.MockTransport(handle)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            await Load(http, "m", [{}], ["<mark>"], outcome, tool_set).run(1, 4)

    asyncio.run(send_all())
    return outcome


@pytest.mark.parametrize(
    ("status", "code", "counted"),
    [
        (400, "schema_too_complex", "refused: schema_too_complex"),
        (400, "max_tokens_too_small", "refused: max_tokens_too_small"),
        (500, "tool_schema_violation", "given up"),
        *((status, "other", None) for status in (400, 500, 503)),
    ],
)
def test_right_refusals_are_counted_and_other_errors_are_violations(status, code, counted):
    outcome = outcome_of(lambda *_: httpx.Response(status, json={"error": {"code": code}}))
    assert len(outcome.violations) == (0 if counted else 15)
    assert not counted or outcome.counts[counted] == outcome.counts["requests"] == 15


def test_calls_are_validated_and_counted_by_engine():
    def answer(request, body):
        if request.url.path != "/v1/chat/completions" or body.get("stream"):
            return httpx.Response(500, json={"error": {"code": "tool_schema_violation"}})
        name = body["tools"][0]["function"]["name"]
        made = {"function": {"name": name, "arguments": '{"none": "of these"}'}}
        message = {"content": "<mark>", "tool_calls": [made]}
        choice = {"message": message, "finish_reason": "tool_calls"}
        choices = [{"index": at, **choice} for at in range(body["n"])]
        usage = {"prompt_tokens": 1, "completion_tokens": 5 * body["n"], "total_tokens": 61}
        return httpx.Response(200, json={"choices": choices, "usage": usage})

    outcome = outcome_of(answer)
    right = 15 - outcome.counts["given up"]
    calls = outcome.counts["calls: complete"]
    assert outcome.counts["calls: xgrammar"] == calls == right * ANSWERS > 0
    assert len(outcome.violations) == right
    assert all("markup in content" in each for each in outcome.violations)


# --- chaos and soak ---


@pytest.fixture
def scripted(gateway):
    for at in range(100):
        gateway.backend.scripts[f"Go on, {at}."] = Script(("Hello there",))
    return gateway


def asks(count):
    drawn = random.Random(3)
    return [make_ask(drawn, {}) for _ in range(count)]


@pytest.mark.parametrize("api", Api)
async def test_requests_of_the_load_are_accepted_on_each_api(scripted, api):
    """The backend's content is a response to those that require no call."""
    for ask in [each for each in asks(12) if each.choice != "required"]:
        response = await scripted.ask(body_of(api, ask), path=PATHS[api])
        assert response.status == 200, response.json
        data = b"".join(response.bodies)
        if ask.stream:
            assert is_complete(api, data)
            assert not is_complete(api, data[: len(data) // 2])
            assert not is_complete(api, data[: data.rindex(ENDS[api][0][:6])])


async def responded(api, ask, data, status=200):
    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=data))
    async with httpx.AsyncClient(transport=transport) as http:
        return await send(http, "http://gateway", "key", ask, api)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", Api)
async def test_responses_to_the_load_are_checked(scripted, api, stream):
    ask = dataclasses.replace(next(each for each in asks(40) if not each.tools), stream=stream)
    response = await scripted.ask(body_of(api, ask), path=PATHS[api])
    data = b"".join(response.bodies)
    assert await responded(api, ask, data) == ("ok", [])
    what, (wrong,) = await responded(api, ask, data[: len(data) // 2])
    assert what == ("no end" if stream else "invalid"), wrong
    what, wrongs = await responded(api, ask, data.replace(b"Hello", b"<tool_call>"))
    assert what in ("ok", "invalid")
    assert wrongs
    error = json.dumps({"error": {"code": "limits_unavailable", "type": "x"}}).encode()
    assert await responded(api, ask, error, 503) == ("503 limits_unavailable", [])
    assert (await responded(api, ask, error, 400))[1]


async def test_an_error_beside_a_whole_response_is_found():
    ask = dataclasses.replace(next(each for each in asks(40) if not each.tools), stream=True)
    event = b'data: {"error": {"code": "overloaded", "type": "x"}}\n\n'
    assert await responded(Api.CHAT, ask, event) == ("event overloaded", [])
    assert (await responded(Api.CHAT, ask, event + b"data: [DONE]\n\n"))[1]
    delta = {"content": "<tool_call>", "role": "assistant"}
    whole = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
    half = f"data: {json.dumps({'id': 'x', **whole})}\n\n".encode()
    _, wrong = await responded(Api.CHAT, ask, half)
    assert any("half as whole: markup" in each for each in wrong)


def test_attacks_have_outcomes_that_no_gateway_may_have():
    attacks = Attacks((), "key")
    attacks.outcomes.update([("trailers", "cut"), ("hostile schemas", "400")])
    table, wrong = attacks.report()
    assert "| hostile schemas | 400 | 1 |" in table
    assert wrong == []
    bad = [("trailers", "accepted"), ("hostile schemas", "500")]
    attacks.outcomes.update([*bad, ("hostile schemas", "no response to deep")])
    assert len(attacks.report()[1]) == 3


def samples(hours, per_hour):
    """One sample a minute of a server whose memory grows, with noise, after it was filled."""
    return [
        Sample(60.0 * at, "gateway", {"memory, MB": 300 + per_hour * at / 60 + (at % 7)})
        for at in range(round(hours * 60))
    ]


def test_growth_is_found_and_noise_is_not():
    assert slope([(0, 1.0), (1800, 2.0), (3600, 3.0)]) == pytest.approx(2.0)
    assert slope([(0, 1.0)]) == 0.0
    assert soak.growth_of(samples(2, 0))[1] == []
    (wrong,) = soak.growth_of(samples(2, 200))[1]
    assert wrong.startswith("gateway: memory, MB grows by")
    assert soak.growth_of(samples(0.2, 2000))[1] == []  # caches are filled first


def test_a_limit_that_is_exceeded_is_found():
    assert most_within([], 60) == 0
    assert most_within([(0, 1), (30, 31), (59, 60), (60, 61)], 60) == 3
    assert most_within([(0, 1), (59, 61)], 60) == 1  # it may have been admitted after the window
    probe = LimitProbe((), "key")
    probe.passed = [(at, at + 0.1) for at in range(PER_MINUTE)]
    probe.passed += [(at + 60, at + 60.1) for at in range(PER_MINUTE)]
    assert probe.report()[1] == []
    probe.passed = [(at / 2, at / 2 + 0.1) for at in range(2 * PER_MINUTE)]
    assert probe.report()[1] == ["120 requests passed within a minute"]


# --- hostile loops ---


@pytest.mark.exhaustive
async def test_a_short_run_finds_nothing():
    outcome = await loops.loops(seed=1, number=10, concurrency=5)
    assert outcome.violations == []
    assert outcome.counts["calls that ran"] > 5
    assert outcome.counts["compared: streamed and whole"] > 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_arguments_are_invalid(damage):
    rng = Random(damage)
    for name, schema in [(name, each) for name, some in SCHEMAS.items() for each in some]:
        arguments = instance(schema, rng) | {LOOP: 1}
        assert is_valid(name, arguments)
        damaged = DAMAGES[damage](arguments)
        if isinstance(damaged, str):
            try:
                damaged = json.loads(damaged)
            except ValueError:
                continue
        assert not is_valid(name, damaged)


async def test_the_judgement_finds_invalid_calls_and_broken_limits(gateway, tmp_path):
    calls, outcome, model = tmp_path / "calls", Outcome(0), RandomModel(0)
    load = loops.Load(gateway, model, calls, outcome)
    valid = {"name": "slow", "arguments": {LOOP: 3, "value": 1}}
    invalid = {"name": "slow", "arguments": {LOOP: 4, "value": "one"}}
    calls.write_text("\n".join(map(json.dumps, (valid, valid, invalid))))
    load._limits = {3: 1}
    model.rounds[5] = 11
    load._judge_calls()
    found = "\n".join(outcome.violations)
    assert len(outcome.violations) == 3
    assert "an invalid call ran" in found
    assert "2 calls ran, and it allows 1" in found
    assert "11 rounds" in found
