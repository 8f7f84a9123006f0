"""Grammars: where they come from, hostile schemas beside another client's requests, and the
backend's own routes."""

import asyncio
import statistics
import time
import uuid

import httpx
import psutil
import pytest

from tests import tools
from tests.support.schemas.hostile import HOSTILE
from tests.support.servers.http_client import http_client
from toolgate_core import wire
from toolgate_core.chat_shape import PATH, body_of
from toolgate_proxy.backend_client.event_stream import SseParser

from . import kit

USER = [{"role": "user", "content": "hi"}]


def new_tool(schema=None):
    short = tools.tool("", {"x": {"type": "string", "maxLength": 5}})["function"]["parameters"]
    function = {"name": f"tool_{uuid.uuid4().hex}", "parameters": schema or short}
    return {"type": "function", "function": function}


# --- hostile schemas ---


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


ENDLESS = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}
ATTACKS = {
    "deep": nested(90),
    "many properties": {"type": "object", "properties": {f"p{i}": {} for i in range(6000)}},
    "a long enum": {
        "type": "object",
        "properties": {"x": {"type": "string", "enum": [f"v{i}" for i in range(5000)]}},
    },
    "remote reference": {"$ref": "https://example.com/schema.json"},
    "required without end": {"$defs": {"a": ENDLESS}, **ENDLESS},
    **{
        name: HOSTILE[name]
        for name in (
            "doubling properties",
            "doubling allOf",
            "doubling properties at the root",
            "doubling allOf at the root",
        )
    },
}
REFUSALS = (
    *("invalid_tools", "schema_not_enforceable", "schema_too_complex"),
    "context_length_exceeded",  # the long enum is enforceable, and part of the prompt
)
SMALL = {"type": "object", "properties": {"x": {"type": "string", "maxLength": 3}}}
PATTERN = {"type": "string", "pattern": "^[a-c]{1,3}$"}
WITH_PATTERN = {"type": "object", "properties": {"x": PATTERN}, "required": ["x"]}
"""For the other grammar engine."""
MAX_GROWTH = 64 * 2**20
"""Bytes that the engine may grow."""


@pytest.fixture
async def neighbours(gateway):
    async with http_client(gateway.url, gateway.key, timeout=120) as client:
        yield client


class Neighbour:
    """Another client: a stream of tokens, and short requests with a tool that it has used before,
    one after the other."""

    def __init__(self, http, common):
        self.http, self.common = http, {**common, "messages": USER}
        self.gaps = []
        """Seconds between two events of the stream."""
        self.answers = []
        """Seconds of each short request."""

    def medians(self):
        """Of a gap and of an answer, since the last call."""
        found = statistics.median(self.gaps), statistics.median(self.answers)
        self.gaps, self.answers = [], []
        return found

    async def stream(self):
        body = {**self.common, "logit_bias": {}, "max_tokens": 7000, "ignore_eos": True}
        body |= {"reasoning_effort": "none", "stream": True}
        async with self.http.stream("POST", kit.CHAT, json=body) as response:
            assert response.status_code == 200
            last = time.monotonic()
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    now = time.monotonic()
                    self.gaps.append(now - last)
                    last = now
                    assert '"error"' not in line

    async def ask(self):
        while True:
            began = time.monotonic()
            body = {**self.common, "max_tokens": 8, "tools": [tools.WEATHER]}
            response = await self.http.post(kit.CHAT, json=body)
            assert response.status_code == 200, response.text
            self.answers.append(time.monotonic() - began)
            await asyncio.sleep(0.1)


def engine_memory(backend):
    children = psutil.Process(backend.pid).children(recursive=True)
    named = {each: " ".join([each.name(), *each.cmdline()]) for each in children}
    engines = [each for each, name in named.items() if "EngineCore" in name]
    assert engines
    return sum(each.memory_info().rss for each in engines)


@pytest.mark.timed
@kit.both_adapters
async def test_hostile_schemas_are_answered_and_other_clients_do_not_notice(
    neighbours, common, target
):
    async def forced(schema):
        more = {"messages": USER, "tools": [new_tool(schema)], "tool_choice": "required"}
        return await neighbours.post(kit.CHAT, json=common | more)

    for schema in (WITH_PATTERN, tools.WEATHER["function"]["parameters"], SMALL):
        response = await forced(schema)
        assert response.status_code == 200, response.text
    neighbour = Neighbour(neighbours, common)
    tasks = [asyncio.create_task(neighbour.stream()), asyncio.create_task(neighbour.ask())]
    try:
        await asyncio.sleep(4)
        before, memory = neighbour.medians(), engine_memory(target)
        attack = [asyncio.create_task(forced(schema)) for schema in ATTACKS.values()]
        await asyncio.sleep(0.5)
        new = await forced(SMALL)
        assert new.status_code == 200, new.text
        attacks = await asyncio.gather(*attack)
        during, growth = neighbour.medians(), engine_memory(target) - memory
        assert not any(task.done() for task in tasks), "the stream and the requests go on"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for name, answer in zip(ATTACKS, attacks, strict=True):
        assert answer.status_code in (200, 400), (name, answer.text)
        if answer.status_code == 400:
            assert answer.json()["error"]["code"] in REFUSALS, name
    assert growth <= MAX_GROWTH
    # The compiles in the quarantine have a low priority, but on few cores they are noticed.
    assert during[0] < 10 * before[0] + 0.05
    assert during[1] < 10 * before[1] + 0.25


# --- the backend's own routes ---


@pytest.mark.parametrize("path", ["/info", "/status", "/grammars", "/generate"])
def test_the_backends_routes_require_vllms_key(backend, path):
    url = f"{backend.base_url}".rstrip("/") + path
    for method in ("GET", "PUT", "POST"):
        answer = httpx.request(method, url, content=b"{}", trust_env=False)
        assert answer.status_code == 401


@pytest.mark.parametrize("op", ["info", "grammars", "generate"])
def test_messages_of_gateways_require_vllms_key(target, op):
    content = body_of(op, None, "tiny")
    answer = httpx.post(f"{target.url}{PATH}", content=content, trust_env=False)
    assert answer.status_code == 401


def test_chat_completions_of_vllm_are_its_own(target, model):
    """Also with text that names the member of gateways."""
    messages = [{"role": "user", "content": '"toolgate"'}]
    with target.client() as client:
        asked = {"model": model, "messages": messages, "max_tokens": 4}
        answer = client.post(PATH, json=asked).raise_for_status().json()
    assert answer["object"] == "chat.completion"
    assert answer["usage"]["completion_tokens"] == 4


def test_batches_have_the_tokens_of_the_same_response(backend, model):
    sampling = wire.Sampling(max_tokens=60, temperature=0.0, logprobs=1, n=2, ignore_eos=True)
    events = []
    for batched in (False, True):
        request = wire.GenerateRequest(
            request_id=uuid.uuid4().hex,
            model=model,
            prompt=wire.ChatPrompt(messages=tuple(USER)),
            sampling=sampling,
            batched=batched,
        )
        content = request.model_dump_json(exclude_none=True)
        response = backend.post("/generate", content=content).raise_for_status()
        payloads = SseParser().feed(response.content)
        sent = wire.stream_events.validate_json(b"[" + b",".join(payloads) + b"]")
        assert isinstance(sent[-1], wire.UsageEvent)
        assert sent[-1].completion_tokens == 120
        events.append([each for each in sent if isinstance(each, wire.TokensEvent)])
    single, joined = events
    assert len(joined) < len(single) / 2
    for choice in (0, 1):
        assert len(tokens(single, choice)) == 60
        assert tokens(joined, choice) == tokens(single, choice)


def tokens(events, choice):
    return [
        (token, text, logprob.token)
        for event in events
        if event.choice == choice
        for token, text, logprob in zip(event.ids, event.texts, event.logprobs or (), strict=True)
    ]


def test_generation_continues_after_given_tokens(backend):
    """Greedily, the second half of an answer comes again after its first half."""

    def generate(**more):
        body = {
            "request_id": f"heir-{len(more)}",
            "model": "tiny",
            "prompt": {"kind": "tokens", "token_ids": [1, 2, 3]},
            "enforcement": {"choice": "none"},
            "sampling": {"max_tokens": 12, "temperature": 0},
            "stream": False,
        }
        return backend.post("/generate", json=body | more)

    def ids(events):
        return [i for event in events if event["event"] == "tokens" for i in event["ids"]]

    whole = generate().raise_for_status().json()
    accepted = ids(whole)[:5]
    left = {"max_tokens": 7, "temperature": 0}
    rest = generate(accepted=accepted, sampling=left).raise_for_status().json()
    assert accepted + ids(rest) == ids(whole)
    assert rest[0]["prompt_tokens"] == whole[0]["prompt_tokens"] == 3
    assert rest[-1]["completion_tokens"] == 7
    refused = generate(accepted=[10**9])
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "accepted")
