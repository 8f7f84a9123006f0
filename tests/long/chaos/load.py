"""Steady mixed load, whose responses are checked."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import httpx

from tests.long.chaos.fleet import MODEL
from tests.long.fuzz.checks import Request, check_response
from tests.support.apis import replies
from tests.support.apis.read_responses import from_chunks, read_events
from tests.support.apis.replies import PATHS, Reply
from toolgate_verify.asking import request
from toolgate_verify.asking.ask import Ask, User
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

MAX_TOKENS = 160
PAUSE = 0.25
"""Seconds between two requests of a client."""
TIMEOUT = 120.0
NEW_SCHEMAS = 10**9
"""So many that nearly each new tool has a schema that no other one has."""

LAST_EVENTS = {
    Api.RESPONSES: ("response.completed", "response.incomplete"),
    Api.MESSAGES: ("message_stop",),
}
"""Types of the events that end a complete stream. Chunks of chat completions have no types."""


@dataclass
class Outcome:
    what: str
    """`ok`, or the status and code of the error."""
    began: float
    seconds: float
    violations: list[str]


@dataclass
class Load:
    """`clients` clients that send requests in turn to all `urls` with all `keys`."""

    urls: Sequence[str]
    keys: Sequence[str]
    bias: dict[str, float]
    clients: int
    seed: int = 1
    apis: Sequence[Api] = (Api.CHAT,)
    cancelled: float = 0.0
    """Share of the requests whose client disconnects early."""
    schemas: int = NEW_SCHEMAS
    """Number of schemas of new tools. One in ten is of the largest number in any case."""
    outcomes: list[Outcome] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Returns after `ended` is set and the last responses have arrived."""
        async with (
            httpx.AsyncClient(timeout=TIMEOUT, trust_env=False) as http,
            asyncio.TaskGroup() as group,
        ):
            for number in range(self.clients):
                group.create_task(self._client(http, number))

    async def _client(self, http: httpx.AsyncClient, number: int) -> None:
        drawn = random.Random(f"{self.seed}:{number}")
        for turn in itertools.count(number):
            if self.ended.is_set():
                return
            url = self.urls[turn % len(self.urls)]
            key = self.keys[turn // len(self.urls) % len(self.keys)]
            schemas = self.schemas if drawn.random() < 0.9 else NEW_SCHEMAS
            ask, api = make_ask(drawn, self.bias, schemas), drawn.choice(self.apis)
            leave = drawn.uniform(0, 2) if drawn.random() < self.cancelled else None
            began = time.monotonic()
            try:
                async with asyncio.timeout(leave):
                    what, violations = await send(http, url, key, ask, api)
            except TimeoutError:
                what, violations = "disconnected", []
            seconds = time.monotonic() - began
            self.outcomes.append(Outcome(what, began, seconds, violations))
            await asyncio.sleep(PAUSE)


def make_ask(drawn: random.Random, bias: dict[str, float], schemas: int = NEW_SCHEMAS) -> Ask:
    kind = drawn.choice(["content", "known", "known", "new", "new", "recursive"])
    ask = Ask(
        (User(f"Go on, {drawn.randrange(100)}."),),
        strict=None,
        max_tokens=MAX_TOKENS,
        temperature=None,
        stream=drawn.random() < 0.5,
        reasoning=drawn.choice(["none", "low"]),
        adaptive=True,
        extra={"model": MODEL, "logit_bias": bias},
    )
    if kind == "content":
        return replace(ask, max_tokens=40)
    makers: dict[str, Callable[[random.Random], Tool]] = {
        "known": known,
        "new": partial(new, schemas=schemas),
        "recursive": recursive,
    }
    tools = [makers[kind](drawn), *(known(drawn) for _ in range(drawn.randrange(2)))]
    return replace(
        ask,
        tools=tuple({tool.name: tool for tool in tools}.values()),
        choice=drawn.choice(["required", "required", "auto"]),
        parallel=drawn.random() < 0.3,
    )


def known(drawn: random.Random) -> Tool:
    number = drawn.randrange(4)
    unit: dict[str, Any] = {f"unit_{number}": {"enum": ["C", "F"]}}
    return tool(f"known_{number}", {"city": {"type": "string"}} | unit)


def new(drawn: random.Random, schemas: int) -> Tool:
    name = f"p{drawn.randrange(schemas)}"
    return tool(f"new_{name}", {name: {"type": "integer", "maximum": 9}, "b": {"type": "boolean"}})


def recursive(_: random.Random) -> Tool:
    """Its calls are validated in a worker, because the cost of a cycle is unknown."""
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/node"}, "leaf": {"type": "boolean"}},
        "required": ["leaf"],
        "additionalProperties": False,
    }
    return tool("tree", {"left": {"$ref": "#/$defs/node"}}, {"$defs": {"node": node}})


def tool(name: str, properties: dict[str, Any], more: Mapping[str, Any] = {}) -> Tool:
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }
    return Tool(name, "Does it.", parameters)


def body_of(api: Api, ask: Ask) -> dict[str, Any]:
    body = request(api, ask).body
    assert body is not None
    return body


async def send(
    http: httpx.AsyncClient, url: str, key: str, ask: Ask, api: Api
) -> tuple[str, list[str]]:
    """The kind of outcome, and what is wrong with the response."""
    headers = {"authorization": f"Bearer {key}"}
    data, error = b"", ""
    try:
        async with http.stream(
            "POST", url + PATHS[api], json=body_of(api, ask), headers=headers
        ) as response:
            if response.status_code != 200:
                await response.aread()
                return failure(response)
            async for part in response.aiter_bytes():
                data += part
    except httpx.TransportError as failed:
        error = f"connection: {type(failed).__name__}"
    try:
        if api == Api.CHAT and ask.stream:
            chunks = chunks_of(data)
            return (error, cut(chunks, ask)) if error else read_chunks(chunks, ask)
        if error and not (ask.stream and is_complete(api, data)):
            return error, []
        if ask.stream and (code := stream_error(data)) is not None:
            return f"event {code}", []
        wrong = checked(replies.read(api, data, streamed=ask.stream), ask)
        return error or "ok", [f"half as whole: {each}" if error else each for each in wrong]
    except replies.REFUSED as invalid:
        return "invalid", [f"{PATHS[api]}: {invalid!r}: {data[-300:]!r}"]


def chunks_of(data: bytes) -> list[bytes]:
    """The data of the events of chat completions whose lines are whole."""
    *lines, _ = data.split(b"\n")
    return [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")]


def failure(response: httpx.Response) -> tuple[str, list[str]]:
    try:
        error = response.json()["error"]
        code = error.get("code") or error["type"]
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code}", [f"{response.status_code}: {response.text[:200]}"]
    wrong = response.status_code < 500 and response.status_code not in (408, 429)
    return f"{response.status_code} {code}", [f"a valid request got {code}"] if wrong else []


def read_chunks(chunks: Sequence[bytes], ask: Ask) -> tuple[str, list[str]]:
    """The outcome of a stream whose connection ended in order."""
    parsed = [json.loads(chunk) for chunk in chunks if chunk != b"[DONE]"]
    error = next((chunk["error"] for chunk in parsed if "error" in chunk), None)
    if error is not None:
        wrong = ["an error, and [DONE]"] if chunks[-1] == b"[DONE]" else []
        return f"event {error.get('code')}", wrong + cut(chunks, ask)
    if chunks[-1:] != [b"[DONE]"]:
        return "no end", ["a stream ended without an error and without [DONE]"]
    try:
        return "ok", checked(replies.of_chat(from_chunks(parsed)), ask)
    except ValueError as invalid:
        return "invalid", [f"invalid stream: {invalid}"]


def cut(chunks: Sequence[bytes], ask: Ask) -> list[str]:
    """Checks a stream that was cut. Only a choice with a finish_reason looks like a whole one."""
    parsed = [json.loads(chunk) for chunk in chunks if chunk != b"[DONE]"]
    parsed = [chunk for chunk in parsed if "error" not in chunk]
    try:
        found = checked(replies.of_chat(from_chunks(parsed)), ask)
    except ValueError:  # a choice without a finish_reason
        return []
    return [f"half as whole: {each}" for each in found]


def checked(found: list[Reply], ask: Ask) -> list[str]:
    """What is wrong with the choices, if there are any."""
    meaning = body_of(Api.CHAT, ask)
    return check_response(found, Request(meaning, meaning)) if found else []


def stream_error(data: bytes) -> str | None:
    """The code of the error that ended a stream; None if there was none. Raises ValueError or
    AssertionError if an event is not whole."""
    events = read_events(data)
    if not events:
        return None
    event = events[-1]
    if event["type"] == "response.failed":
        return str(event["response"]["error"]["code"])
    if event["type"] == "error":
        error = event.get("error", event)
        return str(error.get("code") or error.get("type"))
    return None


def is_complete(api: Api, data: bytes) -> bool:
    """Whether a stream says of itself that it is complete."""
    names = [line[7:].decode() for line in data.split(b"\n") if line.startswith(b"event: ")]
    return bool(names) and names[-1] in LAST_EVENTS[api] and data.endswith(b"\n\n")
