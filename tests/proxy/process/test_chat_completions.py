"""Chat completions of a running gateway: on its own route, and where LiteLLM's handler answers."""

import asyncio
import re

import pytest

from tests.proxy.process.kit import BOTH_ROUTES, CHAT, ROWS
from tests.support.apis.sdk_requests import SCRIPTS, WEATHER, asked, streamed, whole
from tests.support.effort import rotating
from tests.support.grammars.prewarm_tools import entry
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import Script, call
from tests.support.waiting import until
from toolgate_core.tools import parse_tools
from toolgate_proxy.grammars.service import grammar_key

pytestmark = BOTH_ROUTES


@pytest.mark.parametrize("name", SCRIPTS)
async def test_stream_equals_whole_response(client, backend, name):
    backend.scripts |= SCRIPTS
    params = asked(name, tools=[WEATHER], n=2, logprobs=True, top_logprobs=2)
    answer, usage = await whole(client, **params)
    assert sorted(answer) == [0, 1]
    told, told_usage = await streamed(client, **params)
    assert told == answer
    for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert told_usage[field] == usage[field] > 0
    assert told_usage["prompt_tokens_details"]["cached_tokens"] == 3


@pytest.mark.parametrize("ask", [streamed, whole])
async def test_stop_string_ends_the_backend_request(client, backend, ask):
    backend.scripts["wordy"] = Script(("One two three four " * 50,), pause=0.01)
    answer, usage = await ask(client, **asked("wordy", stop=["three"], n=2))
    assert [answer[at][0] for at in (0, 1)] == ["One two ", "One two "]
    assert usage["completion_tokens"] == 2 * 5
    assert await backend.idle_within(5)
    assert backend.left


RECEIPT = re.compile(r"(known|new); n=(\d+)")


async def told(http, *names, stream):
    """Whether the grammars of the header were known, and their number."""
    schema = {"parameters": {"type": "object"}}
    tools = [{"type": "function", "function": {"name": name, **schema}} for name in names]
    answer = await http.post(CHAT, json=asked(tools=tools, stream=stream))
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-toolgate-enforced"] == "full"
    words = ("cost", "discount", "margin", "spend", "budget")  # the model has no prices
    assert not [name for name in answer.headers if any(each in name for each in words)]
    match = RECEIPT.fullmatch(answer.headers["x-toolgate-grammar"])
    assert match
    return match[1], int(match[2])


@pytest.mark.parametrize("stream", [False, True])
async def test_header_says_whether_a_grammar_is_new(http, backend, redis_of_gateway, stream):
    one, two = f"tier_a{stream}", f"tier_b{stream}"
    assert await told(http, one, stream=stream) == ("new", 1)
    assert await told(http, one, stream=stream) == ("known", 1)
    assert await told(http, one, two, stream=stream) == ("new", 2)
    key = grammar_key(parse_tools([entry(one)])[0], INFO)
    await until(lambda: redis_of_gateway.client.exists(f"toolgate:verdict:{key}"))
    backend.forget()
    assert await told(http, one, stream=stream) == ("known", 1)
    metrics = (await http.get("/toolgate/metrics")).text
    for expected in (
        r'toolgate_grammars_total\{verdict="new"\} \d',
        r'toolgate_grammars_total\{verdict="known"\} \d',
        r"toolgate_redis_breaker_open 0",
    ):
        assert re.search(expected, metrics), expected


async def test_enforced_header_is_none_without_tools(http, backend):
    for body, enforced in ((asked(), "none"), (asked(stream=True), "none"),
                           (asked(tools=[WEATHER], tool_choice="none"), "full")):  # fmt: skip
        answer = await http.post(CHAT, json=body)
        assert answer.headers["x-toolgate-enforced"] == enforced
        assert "x-toolgate-grammar" not in answer.headers
    for response in (
        await http.post(CHAT, json=asked(temperature="hot")),
        await http.get("/v1/models"),
    ):
        assert not [name for name in response.headers if name.startswith("x-toolgate")]


async def test_a_safe_request_id_is_kept_and_sent_to_the_backend(http, backend):
    for given in ("my-request.7", None, "no\tgood", "x" * 200):
        headers = {"x-request-id": given} if given else {}
        for stream in (False, True):
            response = await http.post(CHAT, json=asked(stream=stream), headers=headers)
            told = response.headers["x-request-id"]
            assert (told == given) is (given == "my-request.7")
            assert backend.requests[-1].request_id.startswith(f"{told}.chatcmpl-")
    wrong = asked(temperature="hot")
    refused = await http.post(CHAT, json=wrong, headers={"x-request-id": "r"})
    assert (refused.status_code, refused.headers["x-request-id"]) == (400, "r")


async def test_backend_restarts_fail_no_request(client, backend):
    """A backend that forgets all it held, again and again, while clients go on asking."""
    backend.scripts["hi"] = Script((call("tool1", {}),))
    names = [f"tool{at}" for at in range(6)]

    async def ask(number):
        seen = []
        for at in range(6):
            tools = [
                {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
                for name in names[: 2 + (number + at) % 5]
            ]
            answer = await client.chat.completions.create(**asked(tools=tools))
            seen.append(answer.choices[0].finish_reason)
        return seen

    clients = asyncio.gather(*(ask(number) for number in range(8)))
    restarts = 0
    while not clients.done():
        await asyncio.sleep(0.01)
        if len(backend.requests) >= 12 * (restarts + 1):
            backend.forget()
            restarts += 1
    assert await clients == [["tool_calls"] * 6] * 8
    assert restarts >= 3
    assert len(backend.loads) >= restarts - 1
    assert len(backend.requests) == 8 * 6


async def test_concurrent_responses_do_not_mix(client, backend):
    texts = {f"s{at}": f"Answer number {at}, and no other." for at in range(24)}
    backend.scripts |= {name: Script((text,), pause=0.001) for name, text in texts.items()}
    answers = await asyncio.gather(
        *((streamed if at % 2 else whole)(client, **asked(f"s{at}")) for at in range(24))
    )
    assert [answer[0][0] for answer, _ in answers] == list(texts.values())


@rotating("params, code, param", ROWS["refused"], one_in=3)
async def test_invalid_requests_return_their_error(http, backend, params, code, param):
    error = {"message": "Too long.", "code": "context_length_exceeded", "param": "messages"}
    backend.scripts |= SCRIPTS | {"long": Script(("",), error_status=400, error=error)}
    for stream in (True, False):
        response = await http.post(CHAT, json=asked("content", stream=stream) | params)
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        assert (error["code"], error["param"]) == (code, param)
        assert error["type"] == "invalid_request_error"
        assert "litellm" not in error["message"].lower()
        if code == "schema_not_enforceable":
            assert error["pointer"] == "/not"
    unknown = await http.post(CHAT, json=asked("content") | {"model": "nope"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
