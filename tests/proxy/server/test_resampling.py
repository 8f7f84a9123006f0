"""Calls with a keyword that no mask enforces are held back, validated and sampled again."""

import asyncio
import json
import re

import openai
import pytest
from prometheus_client import REGISTRY

from tests.proxy.server import kit
from tests.proxy.server.kit import APIS, STREAM, function
from tests.support.apis.sdk_requests import asked, streamed, whole
from tests.support.litellm.own_route import MASTER
from tests.support.schemas.hostile import endless_validation
from tests.support.schemas.residual_calls import (
    BAD,
    GOOD,
    PLAIN,
    TAGS,
    UNIQUE,
    before_value,
    calls_of,
)
from tests.support.servers.http_client import openai_client
from tests.support.servers.loopback import served
from tests.support.servers.script import Script, call, tokenize
from toolgate_core import wire
from toolgate_proxy.app import Gateway as App
from toolgate_proxy.server.request_scope import own_headers

BOTH = pytest.mark.parametrize("ask", [whole, streamed])


@pytest.fixture
async def client(gateway):
    gateway.configure(keepalive_seconds=0)
    gateway.backend.residual["set_tags"] = (UNIQUE,)
    async with served(App(gateway.host)) as url, openai_client(url, MASTER) as made:
        yield made


def counted(name, **labels):
    return REGISTRY.get_sample_value(name, labels) or 0.0


def given_up():
    return counted("toolgate_given_up_calls_total")


@BOTH
async def test_call_cut_by_the_budget_is_sent_as_far_as_it_came(client, backend, ask):
    cut = call("set_tags", {"tags": ["red", "red", "green"]})[:70]
    backend.scripts["cut"] = Script((cut,), finish="length")
    answer, _ = await ask(client, **asked("cut", tools=[TAGS]))
    [(name, arguments)] = answer[0][2]
    assert (name, answer[0][3]) == ("set_tags", "length")
    assert arguments.startswith('{"tags": ["red", ')
    assert len(backend.requests) == 1


async def test_only_the_residual_call_is_held_back(client, backend):
    """Its arguments arrive at once; those of the call before it arrive while it is generated."""
    first = call("plain", {"a": 12345678901234567890})
    backend.scripts["slow"] = Script((first + "\n" + GOOD,), pause=0.01)
    stream = await client.chat.completions.create(**asked("slow", tools=[TAGS, PLAIN]), stream=True)
    parts = []
    async for chunk in stream:
        if backend.running:
            parts += [
                (part.index, part.function.arguments or "")
                for part in chunk.choices[0].delta.tool_calls or []
                if part.function
            ]
    while_running = "".join(text for index, text in parts if index == 0)
    assert while_running.startswith('{"a": 123')


@pytest.mark.parametrize("stream", [False, True])
async def test_violation_despite_masks_returns_enforcement_failed(client, backend, caplog, stream):
    counter = "toolgate_enforcement_violations_total"
    before = counted(counter)
    arguments = '{"a": "a-secret-value"}'
    backend.scripts["bug"] = Script((call("plain", arguments),))
    shown = ""

    async def read():
        nonlocal shown
        told = await client.chat.completions.create(**asked("bug", tools=[PLAIN]), stream=stream)
        if stream:
            async for chunk in told:
                assert chunk.choices[0].finish_reason is None
                for part in chunk.choices[0].delta.tool_calls or []:
                    shown += part.function.arguments or ""

    with pytest.raises(openai.APIError) as failure:
        await read()
    assert failure.value.code == "enforcement_failed"
    assert len(shown) < len(arguments), "the client did not receive complete arguments"
    assert counted(counter) == before + 1
    assert re.search(r"schema [0-9a-f]{64}, keyword 'type'", caplog.text)
    assert "a-secret-value" not in caplog.text


async def test_validation_without_end_fails_only_its_own_request(client, backend):
    parameters, arguments = endless_validation()
    tool = {"type": "function", "function": {"name": "endless", "parameters": parameters}}
    backend.scripts |= {
        "endless": Script((call("endless", arguments),)),
        "other": Script(("Hello",)),
    }
    failing = asyncio.ensure_future(streamed(client, **asked("endless", tools=[tool])))
    answer, _ = await whole(client, **asked("other"))
    assert answer[0][0] == "Hello"
    with pytest.raises(openai.APIError) as failure:
        await failing
    assert failure.value.code == "arguments_not_checked"


@pytest.mark.parametrize("stream", [False, True])
async def test_strict_tool_with_residual_keyword_returns_400(gateway, client, stream):
    strict = {**TAGS, "function": {**TAGS["function"], "strict": True}}
    for _ in range(2):
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(**asked(stream=stream, tools=[PLAIN, strict]))
        assert isinstance(refused.value.body, dict)
        assert (
            refused.value.body.items()
            >= {
                "code": "schema_not_enforceable",
                "param": "tools[1].function.parameters",
                "pointer": "/properties/tags/uniqueItems",
            }.items()
        )
        # The backend says so of a new tool when it begins, and is not asked again.
        assert len(gateway.backend.requests) == 1
        assert await gateway.backend.idle_within(5)


async def test_headers_report_residual_keywords_and_resamples(gateway, client, backend):
    backend.scripts |= {"bad": Script((BAD,), again=(GOOD,)), "good": Script((GOOD,))}
    told = []
    for name in ("bad", "good"):
        response = await gateway.ask(asked(name, tools=[TAGS, PLAIN]))
        assert response.status == 200
        told.append(own_headers(response.context))
    for headers in told:
        assert headers["x-toolgate-enforced"] == "residual"
        assert headers["x-toolgate-residual"] == "1; keywords=uniqueItems"
    assert told[0]["x-toolgate-resamples"] == "1"
    assert "x-toolgate-resamples" not in told[1]


@BOTH
async def test_invalid_call_is_resampled_before_the_value_then_from_its_beginning(
    client, backend, ask
):
    def resampled():
        return [counted("toolgate_resamples_total", before=each) for each in ("value", "call")]

    before = resampled()
    first = "I tag.\n" + call("plain", {"a": 1}) + "\n"
    backend.scripts["bad"] = Script((first + BAD + "\n" + GOOD,), again=(BAD, BAD, GOOD))
    params = asked("bad", tools=[TAGS, PLAIN], seed=7, max_tokens=500)
    answer, usage = await ask(client, **params)
    assert calls_of(answer) == [
        ("plain", {"a": 1}),
        ("set_tags", {"tags": ["red", "green", "blue", "yellow"]}),
    ]
    assert (answer[0][0], answer[0][3]) == ("I tag.", "tool_calls")
    sent = backend.requests
    tokens = tuple(token for token, _ in tokenize(first + BAD))
    start, bad = len(tokenize(first)), len(tokenize(BAD))
    last, array = before_value(BAD, "red"), before_value(BAD, "[")
    kept = [start + last, start + array, start]
    assert [each.accepted for each in sent] == [(), *(tokens[:at] for at in kept)]
    assert [each.excluded for each in sent] == [(), (tokens[kept[0]],), (), ()]
    assert len({each.sampling.seed for each in sent}) == 4
    good = len(tokenize(GOOD + "<|im_end|>"))
    spent = [start + bad, bad - last, bad - array, good]
    assert usage["completion_tokens"] == sum(spent)
    left = [each.sampling.max_tokens for each in sent]
    assert left == [500 - sum(spent[:at]) for at in range(4)]
    assert resampled() == [before[0] + 2, before[1] + 1]
    again, _ = await ask(client, **params)
    assert again == answer
    assert [each.sampling.seed for each in sent[4:]] == [each.sampling.seed for each in sent[:4]]


async def test_greedy_request_samples_only_a_whole_call_with_temperature(client, backend):
    backend.scripts["bad"] = Script((BAD,), again=(BAD, BAD, GOOD))
    await whole(client, **asked("bad", tools=[TAGS], temperature=0))
    sampling = [each.sampling for each in backend.requests]
    # The second attempt continues before an array, whose first token is not excluded.
    assert [each.temperature for each in sampling] == [0, 0, 1, 1]
    assert [each.seed is None for each in sampling] == [True, True, False, False]


@BOTH
async def test_resampled_choice_may_end_without_a_call(client, backend, ask):
    again = (BAD, BAD, " And good bye.")
    backend.scripts["bad"] = Script(("Hello. " + BAD,), again=again)
    answer, _ = await ask(client, **asked("bad", tools=[TAGS], stop=["never"], logprobs=True))
    content, _, calls, finish, logprobs = answer[0]
    assert (content, calls, finish) == ("Hello.  And good bye.", [], "stop")
    assert "".join(logprobs) == content


@pytest.mark.parametrize("stream", [False, True])
async def test_last_failed_attempt_returns_tool_schema_violation(client, backend, stream):
    before = given_up()
    backend.scripts["bad"] = Script(("So. " + BAD,), again=(*(BAD,) * 6, GOOD))
    seen = []

    async def read():
        told = await client.chat.completions.create(**asked("bad", tools=[TAGS]), stream=stream)
        if stream:
            seen.extend([chunk async for chunk in told])

    with pytest.raises(openai.APIError) as failure:
        await read()
    assert len(backend.requests) == 7
    assert given_up() == before + 1
    assert isinstance(failure.value.body, dict)
    error = failure.value.body
    assert (error["code"], error["keyword"], error["pointer"]) == (
        "tool_schema_violation",
        "uniqueItems",
        "/tags",
    )
    assert all(word in error["message"] for word in ("set_tags", "/tags", "uniqueItems"))
    assert all(chunk.choices[0].finish_reason is None for chunk in seen)
    assert not any(chunk.choices[0].delta.tool_calls for chunk in seen)
    if not stream:
        assert isinstance(failure.value, openai.InternalServerError)


@BOTH
async def test_no_attempt_without_budget_left(client, backend, ask):
    before = given_up()
    backend.scripts["bad"] = Script((BAD,), again=(GOOD,))
    with pytest.raises(openai.APIError) as failure:
        await ask(client, **asked("bad", tools=[TAGS], max_tokens=len(tokenize(BAD))))
    assert failure.value.code == "tool_schema_violation"
    assert len(backend.requests) == 1
    assert given_up() == before + 1


@BOTH
async def test_complete_arguments_at_the_budgets_end_are_validated(client, backend, ask):
    whole_arguments = BAD.removesuffix("}\n</tool_call>")
    backend.scripts["cut"] = Script((whole_arguments,), finish="length", again=(GOOD,))
    params = asked("cut", tools=[TAGS], max_tokens=len(tokenize(whole_arguments)))
    with pytest.raises(openai.APIError) as failure:
        await ask(client, **params)
    assert failure.value.code == "tool_schema_violation"


@BOTH
async def test_other_choices_continue_while_one_is_resampled(client, backend, ask):
    other = "Something else, and rather longer than the call beside it, so that it outlasts it."
    texts = (BAD + "\n" + BAD, other, BAD)
    backend.scripts["three"] = Script(texts, again=(GOOD,))
    answer, usage = await ask(client, **asked("three", tools=[TAGS], n=3, seed=1))
    assert [answer[at][3] for at in range(3)] == ["tool_calls", "stop", "tool_calls"]
    assert answer[1][0] == other
    for at in (0, 2):
        assert calls_of(answer, at) == [("set_tags", {"tags": ["red", "green", "blue", "yellow"]})]
    assert [each.sampling.n for each in backend.requests] == [3, 1, 1]
    assert len({each.sampling.seed for each in backend.requests}) == 3
    kept = before_value(BAD, "red")
    spent = 2 * len(tokenize(BAD)) + 2 * (len(tokenize(GOOD + "<|im_end|>")) - kept)
    assert usage["completion_tokens"] == spent + len(tokenize(other + "<|im_end|>"))


# --- Content with a format, and calls, are validated at their end: a backend whose masks are wron -

SCHEMA = {"type": "object", "properties": {"código": {"type": "boolean"}}, "required": ["código"]}
VALID, INVALID = json.dumps({"código": True}), '{"c༽igo": true}'
NAMED = {"name": "x", "schema": SCHEMA}
FORMATS = {
    "chat": {"response_format": {"type": "json_schema", "json_schema": NAMED}},
    "responses": {"text": {"format": {"type": "json_schema", **NAMED}}},
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}
NORMAL_ENDS = ('"finish_reason": "stop"', '"response.completed"', '"message_stop"')


@STREAM
@APIS
async def test_content_that_violates_its_format_is_an_error_and_no_normal_end(gateway, api, stream):
    given = {"stream": stream, **FORMATS[api]}
    failed = await kit.ask(gateway, api, Script((INVALID,), pause=0.01), **given)
    shown = failed.response.events if stream else [failed.response.json]
    assert failed.status == (200 if stream else 500)
    assert "The model's content violates its schema" in failed.error["message"]
    assert "enforcement_failed" in json.dumps(shown[-1])
    assert not any(end in json.dumps(shown) for end in NORMAL_ENDS)
    assert (await kit.ask(gateway, api, VALID, **given)).text == VALID


CHAT = FORMATS["chat"]
OBJECT = {"response_format": {"type": "json_object"}}
CHOICE = {"structured_outputs": {"choice": ["a", "no"]}}
REGEX = {"structured_outputs": {"regex": "[a-c]+"}}
LOOK = {"tools": [function("chat", "look", {"type": "object"})]}
CONTENT = {
    "cut by max_tokens": (CHAT, INVALID, "length", True),
    "cut by a stop string": (CHAT | {"stop": ["igo"]}, INVALID, "stop", True),
    "a call instead": (CHAT | LOOK, call("look", {}), "stop", True),
    "text before a JSON value": (CHAT, f"Sure: {VALID}", "stop", False),
    "nothing": (CHAT, "", "stop", False),
    "half of a surrogate pair": (OBJECT, r'{"a": "\ud83d"}', "stop", False),
    "an object": (OBJECT, INVALID, "stop", True),
    "an array for an object": (OBJECT, "[1]", "stop", False),
    "one of the texts": (CHOICE, "no", "stop", True),
    "another text": (CHOICE, "not", "stop", False),
    "a match": (REGEX, "abc", "stop", True),
    "no match": (REGEX, "abcd", "stop", False),
}


async def test_content_is_validated_by_its_format_unless_it_was_cut(gateway):
    for name, (given, text, finish, is_valid) in CONTENT.items():
        reply = await kit.ask(gateway, "chat", Script((text,), finish=finish), **given)
        assert reply.status == (200 if is_valid else 500), name


# --- Content whose format has a residual keyword is held, validated and sampled again -------------

SET = TAGS["function"]["parameters"]
SETS = json.loads(json.dumps(FORMATS).replace(json.dumps(SCHEMA), json.dumps(SET)))
TWICE, ONCE = '{"tags": ["red", "red"]}', '{"tags": ["red", "tan"]}'
SO = "<think>\nSo.</think>"


ARRAY = TWICE[TWICE.index("[") // 3 * 3 :]


def turns(first, *again):
    return [Script((first,), again=again)] * (1 + len(again))


def behind(text):
    """The tokens of a reply up to its last value, and what follows of `text`."""
    tokens = [*tokenize(SO + text)]
    count = before_value(SO + text, json.loads(text)["tags"][1])
    return tokens[: count + 1], "".join(piece for _, piece in tokens[count:])


@STREAM
@APIS
async def test_content_with_a_residual_keyword_is_sampled_again(gateway, backend, api, stream):
    """Before the last value, before the array, and from its beginning; the reasoning stays."""
    backend.residual[""] = (UNIQUE,)
    given = {"stream": stream, **SETS[api]}
    (_, rest), ((*kept, failed), same) = behind(ONCE), behind(TWICE)
    reply = await kit.ask(gateway, api, *turns(SO + TWICE, rest), **given)
    assert (reply.text, reply.own["x-toolgate-enforced"]) == (ONCE, "residual")
    assert api != "chat" or reply.parts[0]["reasoning_content"] == "So."
    again = backend.requests[-1]
    assert again.accepted == tuple(token for token, _ in kept)
    assert (again.excluded, len(backend.requests)) == ((failed[0],), 2)
    reply = await kit.ask(gateway, api, *turns(SO + TWICE, same, ARRAY, ONCE), **given)
    assert reply.text == ONCE
    assert backend.requests[-1].accepted == tuple(token for token, _ in tokenize(SO))


@STREAM
@APIS
async def test_content_that_stays_invalid_is_an_error_and_never_shown(gateway, api, stream):
    gateway.backend.residual[""] = (UNIQUE,)
    sent = turns(*[TWICE, behind(TWICE)[1], ARRAY] * 2, TWICE)
    failed = await kit.ask(gateway, api, *sent, stream=stream, **SETS[api])
    shown = json.dumps(failed.response.events if stream else failed.response.json)
    assert "After 7 attempts, the content still violates 'uniqueItems'" in failed.error["message"]
    assert failed.status == (200 if stream else 500)
    assert "red" not in shown
    assert not any(end in shown for end in NORMAL_ENDS)


@BOTH
async def test_each_choice_of_content_is_sampled_again_by_itself(client, backend, ask):
    backend.residual[""] = (UNIQUE,)
    other = ONCE.replace("tan", "other, and longer than the one beside it")
    backend.scripts["two"] = Script((SO + TWICE, SO + other), again=(behind(ONCE)[1],))
    params = asked("two", n=2, logprobs=True, **SETS["chat"])
    answer, usage = await ask(client, **params)
    assert [(answer[at][0], answer[at][3]) for at in (0, 1)] == [(ONCE, "stop"), (other, "stop")]
    assert ["".join(answer[at][4][-len(tokenize(answer[at][0])) :]) for at in (0, 1)] == [
        ONCE,
        other,
    ]
    assert [each.sampling.n for each in backend.requests] == [2, 1]
    spent = [len(tokenize(SO + text + "<|im_end|>")) for text in (TWICE, other)]
    assert usage["completion_tokens"] == sum(spent) + len(tokenize(behind(ONCE)[1] + "<|im_end|>"))


@BOTH
async def test_content_cut_by_the_budget_is_sent_as_far_as_it_came(client, backend, ask):
    backend.residual[""] = (UNIQUE,)
    backend.scripts["cut"] = Script((SO + TWICE[:-1],), finish="length")
    answer, _ = await ask(client, **asked("cut", **SETS["chat"]))
    assert (answer[0][0], answer[0][3]) == (TWICE[:-1], "length")
    assert len(backend.requests) == 1


@STREAM
@pytest.mark.parametrize("residual", [False, True])
async def test_a_mark_inside_a_call_is_an_error(gateway, stream, residual):
    if residual:
        gateway.backend.residual["look"] = (wire.ResidualKeyword(pointer="/a", keyword="a"),)
    given = {"tools": [function("responses", "look", {"type": "object"})], "stream": stream}
    for finish in ("stop", "length"):
        turn = Script((call("look", {"a": "<think>"}),), finish=finish)
        error = (await kit.ask(gateway, "responses", turn, **given)).error
        assert error["code"] in ("enforcement_failed", "server_error")
        assert "masks were not applied" in error["message"]
