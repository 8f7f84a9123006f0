"""Steady mixed load, whose responses are checked."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx

from tests.long.chaos.fleet import MODEL
from tests.long.chaos.forms import FORMS, Form, is_complete, stream_error
from tests.long.fuzz.checks import check_response, from_chunks
from tests.long.fuzz.values import Request

PATH = "/v1/chat/completions"
MAX_TOKENS = 160
PAUSE = 0.25
"""Seconds between two requests of a client."""
TIMEOUT = 120.0
NEW_SCHEMAS = 10**9
"""So many that nearly each new tool has a schema that no other one has."""


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
    apis: Sequence[str] = ("chat",)
    """The APIs that requests take in turn: `chat`, `responses` and `messages`."""
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
            body = make_body(drawn, self.bias, schemas)
            form = FORMS.get(drawn.choice(self.apis))
            leave = drawn.uniform(0, 2) if drawn.random() < self.cancelled else None
            began = time.monotonic()
            try:
                async with asyncio.timeout(leave):
                    what, violations = await send(http, url, key, body, form)
            except TimeoutError:
                what, violations = "disconnected", []
            seconds = time.monotonic() - began
            self.outcomes.append(Outcome(what, began, seconds, violations))
            await asyncio.sleep(PAUSE)


def make_body(
    drawn: random.Random, bias: dict[str, float], schemas: int = NEW_SCHEMAS
) -> dict[str, Any]:
    kind = drawn.choice(["content", "known", "known", "new", "new", "recursive"])
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": f"Go on, {drawn.randrange(100)}."}],
        "max_tokens": MAX_TOKENS,
        "stream": drawn.random() < 0.5,
        "reasoning_effort": drawn.choice(["none", "low"]),
        "logit_bias": bias,
    }
    if kind == "content":
        return body | {"max_tokens": 40}
    makers: dict[str, Callable[[random.Random], dict[str, Any]]] = {
        "known": known,
        "new": partial(new, schemas=schemas),
        "recursive": recursive,
    }
    body["tools"] = [makers[kind](drawn), *(known(drawn) for _ in range(drawn.randrange(2)))]
    body["tools"] = list({tool["function"]["name"]: tool for tool in body["tools"]}.values())
    body["tool_choice"] = drawn.choice(["required", "required", "auto"])
    body["parallel_tool_calls"] = drawn.random() < 0.3
    return body


def known(drawn: random.Random) -> dict[str, Any]:
    number = drawn.randrange(4)
    properties = {"city": {"type": "string"}, f"unit_{number}": {"enum": ["C", "F"]}}
    return tool(f"known_{number}", properties)


def new(drawn: random.Random, schemas: int) -> dict[str, Any]:
    name = f"p{drawn.randrange(schemas)}"
    return tool(f"new_{name}", {name: {"type": "integer", "maximum": 9}, "b": {"type": "boolean"}})


def recursive(_: random.Random) -> dict[str, Any]:
    """Its calls are validated in a worker, because the cost of a cycle is unknown."""
    made = tool("tree", {"left": {"$ref": "#/$defs/node"}})
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/node"}, "leaf": {"type": "boolean"}},
        "required": ["leaf"],
        "additionalProperties": False,
    }
    made["function"]["parameters"]["$defs"] = {"node": node}
    return made


def tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


async def send(
    http: httpx.AsyncClient, url: str, key: str, body: dict[str, Any], form: Form | None = None
) -> tuple[str, list[str]]:
    """The kind of outcome, and what is wrong with the response. `form`: that of another API than
    chat completions."""
    headers = {"authorization": f"Bearer {key}"}
    if form is not None:
        return await _send_to(form, http, url, headers, body)
    chunks: list[bytes] = []
    try:
        if not body["stream"]:
            response = await http.post(url + PATH, json=body, headers=headers)
            if response.status_code != 200:
                return failure(response)
            return "ok", checked(response.json(), body)
        async with http.stream("POST", url + PATH, json=body, headers=headers) as response:
            if response.status_code != 200:
                await response.aread()
                return failure(response)
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    chunks.append(line.removeprefix("data: ").encode())
    except httpx.TransportError as error:
        return f"connection: {type(error).__name__}", cut(chunks, body)
    except ValueError as error:
        return "invalid JSON", [f"invalid JSON: {error}"]
    return read(chunks, body)


async def _send_to(
    form: Form, http: httpx.AsyncClient, url: str, headers: dict[str, str], body: dict[str, Any]
) -> tuple[str, list[str]]:
    data, error = b"", ""
    try:
        async with http.stream(
            "POST", url + form.api.path, json=form.body(body), headers=headers
        ) as response:
            if response.status_code != 200:
                await response.aread()
                return failure(response)
            async for part in response.aiter_bytes():
                data += part
    except httpx.TransportError as failed:
        error = f"connection: {type(failed).__name__}"
        if not (body["stream"] and is_complete(form, data)):
            return error, []
    try:
        if body["stream"] and (code := stream_error(data)) is not None:
            return f"event {code}", []
        made = form.api.streamed(data) if body["stream"] else form.api.whole(data)
        wrong = check_response(made, Request(form.body(body), meaning=body))
        return error or "ok", [f"half as whole: {each}" if error else each for each in wrong]
    except (ValueError, AssertionError, LookupError, TypeError) as invalid:
        return "invalid", [f"{form.api.path}: {invalid!r}: {data[-300:]!r}"]


def failure(response: httpx.Response) -> tuple[str, list[str]]:
    try:
        error = response.json()["error"]
        code = error.get("code") or error["type"]
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code}", [f"{response.status_code}: {response.text[:200]}"]
    wrong = response.status_code < 500 and response.status_code not in (408, 429)
    return f"{response.status_code} {code}", [f"a valid request got {code}"] if wrong else []


def read(chunks: Sequence[bytes], body: dict[str, Any]) -> tuple[str, list[str]]:
    """The outcome of a stream whose connection ended in order."""
    parsed = [json.loads(chunk) for chunk in chunks if chunk != b"[DONE]"]
    error = next((chunk["error"] for chunk in parsed if "error" in chunk), None)
    if error is not None:
        wrong = ["an error, and [DONE]"] if chunks[-1] == b"[DONE]" else []
        return f"event {error.get('code')}", wrong + cut(chunks, body)
    if chunks[-1:] != [b"[DONE]"]:
        return "no end", ["a stream ended without an error and without [DONE]"]
    try:
        return "ok", checked(from_chunks(parsed), body)
    except ValueError as invalid:
        return "invalid", [f"invalid stream: {invalid}"]


def cut(chunks: Sequence[bytes], body: dict[str, Any]) -> list[str]:
    """Checks a stream that was cut. Only a choice with a finish_reason looks like a whole one."""
    parsed = [json.loads(chunk) for chunk in chunks if chunk != b"[DONE]"]
    parsed = [chunk for chunk in parsed if "error" not in chunk]
    try:
        return [f"half as whole: {each}" for each in checked(from_chunks(parsed), body)]
    except ValueError:  # a choice without a finish_reason
        return []


def checked(response: dict[str, Any], body: dict[str, Any]) -> list[str]:
    if not response["choices"]:
        return []
    return check_response(response, Request(body, meaning=body))
