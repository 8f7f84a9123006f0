"""Steady mixed load, whose responses are checked."""

import asyncio
import itertools
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from tests.long.chaos.fleet import MODEL
from tests.long.judgement import all_violations, allowed_by, violations
from tests.support.apis import replies
from tests.support.apis.read_responses import from_chunks
from tests.support.servers.http_client import bearer, http_client
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
ENDS = {
    Api.CHAT: (b"data: [DONE]",),
    Api.RESPONSES: (b"event: response.completed", b"event: response.incomplete"),
    Api.MESSAGES: (b"event: message_stop",),
}
"""How the last event of a complete stream begins."""
Judged = tuple[str, list[str]]
"""`ok`, or the status and code of the error; and what is wrong."""


@dataclass
class Outcome:
    what: str
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
            http_client("", timeout=TIMEOUT) as http,
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
                    what, wrong = await send(http, url, key, ask, api)
            except TimeoutError:
                what, wrong = "disconnected", []
            self.outcomes.append(Outcome(what, began, time.monotonic() - began, wrong))
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
    first = _known(drawn) if kind == "known" else _new(drawn, schemas)
    if kind == "recursive":
        first = RECURSIVE
    tools = [first, *(_known(drawn) for _ in range(drawn.randrange(2)))]
    return replace(
        ask,
        tools=tuple({tool.name: tool for tool in tools}.values()),
        choice=drawn.choice(["required", "required", "auto"]),
        parallel=drawn.random() < 0.3,
    )


def _known(drawn: random.Random) -> Tool:
    number = drawn.randrange(4)
    unit: dict[str, Any] = {f"unit_{number}": {"enum": ["C", "F"]}}
    return _tool(f"known_{number}", {"city": {"type": "string"}} | unit)


def _new(drawn: random.Random, schemas: int) -> Tool:
    name = f"p{drawn.randrange(schemas)}"
    members = {name: {"type": "integer", "maximum": 9}, "b": {"type": "boolean"}}
    return _tool(f"new_{name}", members)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    required = [*properties]
    closed = {"required": required, "additionalProperties": False}
    return {"type": "object", "properties": properties, **closed}


def _tool(name: str, properties: dict[str, Any], **more: Any) -> Tool:
    return Tool(name, "Does it.", {**_object(properties), **more})


NODE = _object({"next": {"$ref": "#/$defs/node"}, "leaf": {"type": "boolean"}})
DEFS = {"node": {**NODE, "required": ["leaf"]}}
RECURSIVE = _tool("tree", {"left": {"$ref": "#/$defs/node"}}, **{"$defs": DEFS})
"""Its calls are validated in a worker, because the cost of a cycle is unknown."""


def body_of(api: Api, ask: Ask) -> dict[str, Any]:
    body = request(api, ask).body
    assert body is not None
    return body


async def send(http: httpx.AsyncClient, url: str, key: str, ask: Ask, api: Api) -> Judged:
    data, broken = b"", ""
    try:
        async with http.stream(
            "POST", url + replies.PATHS[api], json=body_of(api, ask), headers=bearer(key)
        ) as response:
            if response.status_code != 200:
                await response.aread()
                return _refused(response)
            async for part in response.aiter_bytes():
                data += part
    except httpx.TransportError as failed:
        broken = f"connection: {type(failed).__name__}"
    try:
        if ask.stream:
            return _streamed(api, ask, data, broken)
        return (broken, []) if broken else ("ok", _checked(api, ask, data))
    except replies.REFUSED as invalid:
        return "invalid", [f"{replies.PATHS[api]}: {invalid!r}: {data[-300:]!r}"]


def _refused(response: httpx.Response) -> Judged:
    try:
        error = response.json()["error"]
        code = error.get("code") or error["type"]
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code}", [f"{response.status_code}: {response.text[:200]}"]
    wrong = response.status_code < 500 and response.status_code not in (408, 429)
    return f"{response.status_code} {code}", [f"a valid request got {code}"] if wrong else []


def _streamed(api: Api, ask: Ask, data: bytes, broken: str) -> Judged:
    """A stream that was cut must not look like a whole one, unless it is right."""
    whole = is_complete(api, data)
    events = [
        json.loads(line[6:])
        for line in data.split(b"\n")[:-1]  # the last line may not be whole
        if line.startswith(b"data: {")
    ]
    if (code := stream_error(events)) is not None:
        wrong = ["an error, and the end of a whole stream"] if whole else []
        return f"event {code}", wrong + _half(api, ask, events)
    if not whole:
        wrong = [] if broken else ["a stream ended without an error and without its end"]
        return broken or "no end", wrong + _half(api, ask, events)
    found = _checked(api, ask, data)
    return broken or "ok", [f"half as whole: {each}" if broken else each for each in found]


def _half(api: Api, ask: Ask, events: Sequence[Any]) -> list[str]:
    """Of the streams without an end, only those of chat completions look like whole ones: if they
    have a finish_reason."""
    if api != Api.CHAT:
        return []
    try:
        found = replies.of_chat(from_chunks([each for each in events if "error" not in each]))
    except ValueError:  # no finish_reason
        return []
    return [
        f"half as whole: {kind}: {detail}"
        for reply in found
        for kind, detail in violations(reply.answer, allowed_by(ask))
    ]


def _checked(api: Api, ask: Ask, data: bytes) -> list[str]:
    found = replies.read(api, data, streamed=ask.stream)
    broken = (each for reply in found for each in all_violations(api, ask, reply.answer))
    return [f"{kind}: {detail}" for kind, detail in broken]


def stream_error(events: Sequence[Any]) -> str | None:
    """The code of the error that ended a stream; None if there was none."""
    for event in events:
        if event.get("type") == "response.failed":
            return str(event["response"]["error"]["code"])
        if event.get("type") == "error" or "error" in event:
            error = event.get("error", event)
            return str(error.get("code") or error.get("type"))
    return None


def is_complete(api: Api, data: bytes) -> bool:
    """Whether a stream says of itself that it is complete."""
    *_, last, end = (b"\n\n" + data).split(b"\n\n")
    return not end and last.startswith(ENDS[api])
