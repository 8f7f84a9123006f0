"""Chat completions of a running gateway: on its own route, and where LiteLLM's handler answers."""

import asyncio
import re

import pytest

from tests.proxy.process.kit import BOTH_ROUTES, CHAT
from tests.support.apis.sdk_requests import SCRIPTS, WEATHER, asked, streamed, whole
from tests.support.grammars.prewarm_tools import entry
from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import Script
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


async def test_concurrent_responses_do_not_mix(client, backend):
    texts = {f"s{at}": f"Answer number {at}, and no other." for at in range(24)}
    backend.scripts |= {name: Script((text,), pause=0.001) for name, text in texts.items()}
    answers = await asyncio.gather(
        *((streamed if at % 2 else whole)(client, **asked(f"s{at}")) for at in range(24))
    )
    assert [answer[0][0] for answer, _ in answers] == list(texts.values())
