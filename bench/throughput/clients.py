"""Clients that stream a response with tools, through OpenAI's API or a backend's own endpoint."""

import itertools
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
from transformers import AutoTokenizer

from bench.support.backend_client import GENERATE_PATH, BackendClient, stream_events
from toolgate_core import wire

Engine = Literal[
    "vllm, free",
    "vllm, strict",
    "vllm, strict, drafts",
    "structured_output",
    "structured_output, drafts",
    "logits_processor",
]
Route = Literal["direct", "direct, free", "hosted_vllm", "toolgate"]
Tools = Sequence[dict[str, Any]]
Send = Callable[[Tools], Awaitable[tuple[float, int]]]
Bias = dict[int, float]

numbers = itertools.count()


@dataclass(frozen=True)
class Client:
    """`send` streams one response. It returns the seconds to the first event, and the tokens."""

    engine: Engine
    route: Route
    send: Send

    @property
    def name(self) -> str:
        return f"{self.engine} · {self.route}"


def chat_client(
    engine: Engine,
    route: Route,
    http: httpx.AsyncClient,
    url: str,
    key: str,
    model: str,
    tokens: int,
    bias: Bias,
) -> Client:
    """A client of `/v1/chat/completions` at `url`. Engines without enforcement get the same tools,
    but not strict and with `tool_choice: auto`."""
    free = engine == "vllm, free"
    fixed = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 1.0,
        "max_tokens": tokens,
        "logit_bias": bias,
        "tool_choice": "auto" if free else "required",
        "chat_template_kwargs": {"enable_thinking": False},
    }
    if free:
        fixed["ignore_eos"] = True
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    async def send(tools: Tools) -> tuple[float, int]:
        body = fixed | {"messages": [{"role": "user", "content": _text()}]}
        body["tools"] = [_not_strict(tool) for tool in tools] if free else list(tools)
        content = json.dumps(body).encode()
        first, usage = await _streamed(
            http, f"{url}/v1/chat/completions", content, headers, b'"usage":{'
        )
        return first, int(usage["usage"]["completion_tokens"])

    return Client(engine, route, send)


def backend_clients(
    engine: Engine, http: httpx.AsyncClient, tokens: int, bias: Bias
) -> list[Client]:
    """Clients of a backend's own endpoint, with and without enforcement.

    `http` is that of `BackendClient`.
    """
    backend = BackendClient(http)
    loaded: dict[int, wire.Enforcement] = {}

    async def enforced(tools: Tools) -> tuple[float, int]:
        if len(tools) not in loaded:
            candidates = tuple(await backend.load(tools))
            loaded[len(tools)] = wire.Enforcement(
                choice="required", candidates=candidates, reasoning="off"
            )
        return await send(tools, loaded[len(tools)])

    async def free(tools: Tools) -> tuple[float, int]:
        return await send(tools, None)

    async def send(tools: Tools, enforcement: wire.Enforcement | None) -> tuple[float, int]:
        sampling = wire.Sampling(
            max_tokens=tokens, temperature=1.0, ignore_eos=enforcement is None, logit_bias=bias
        )
        content = await backend.request(_text(), tools, enforcement, sampling)
        first, usage = await _streamed(http, GENERATE_PATH, content, {}, b'"event":"usage"')
        return first, int(usage["completion_tokens"])

    return [Client(engine, "direct", enforced), Client(engine, "direct, free", free)]


def no_white_space(model: Path) -> Bias:
    """Return the `logit_bias` that keeps a model from tokens of white space alone.

    vLLM's strict tools allow any white space between JSON's tokens. Random weights fill their calls
    with it, where almost all tokens are masked, and sampling masked tokens is cheap on a CPU: the
    engines would be compared on different texts."""
    vocabulary = AutoTokenizer.from_pretrained(model)
    texts = vocabulary.batch_decode([[token] for token in range(len(vocabulary))])
    return {token: -100.0 for token, text in enumerate(texts) if text.isspace()}


def _text() -> str:
    return f"Go on. {next(numbers)}"


def _not_strict(tool: dict[str, Any]) -> dict[str, Any]:
    return tool | {"function": tool["function"] | {"strict": False}}


async def _streamed(
    http: httpx.AsyncClient, url: str, content: bytes, headers: dict[str, str], usage_mark: bytes
) -> tuple[float, Any]:
    """Seconds to the first event, and the event that contains `usage_mark`.

    Only that event is parsed, because this process shares the cores with the servers. Raises
    RuntimeError with the response if it is an error.
    """
    began = time.perf_counter()
    first, last = 0.0, b""
    async for event in stream_events(http, url, content, headers):
        first = first or time.perf_counter() - began
        if usage_mark in event.replace(b" ", b"") or b'"error"' in event:
            last = event
    found = json.loads(last or b"{}")
    if "error" in found or not found:
        raise RuntimeError(f"{url}: {last[:300]!r}")
    return first, found
