"""Ways to ask for a stream with tools: over OpenAI's API, and over a backend's own wire."""

import itertools
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from bench.support.raw import PATH, RawBackend, lines
from toolgate_core import wire

Engine = Literal[
    "vllm, free",
    "vllm, strict",
    "vllm, strict, drafts",
    "structured_output",
    "structured_output, drafts",
    "logits_processor",
]
Way = Literal["direct", "direct, free", "hosted_vllm", "toolgate"]
Tools = Sequence[dict[str, Any]]
AdmissionRequest = Callable[[Tools], Awaitable[tuple[float, int]]]

numbers = itertools.count()


@dataclass(frozen=True)
class Lane:
    """`ask` streams an answer: seconds to its first event, and its tokens."""

    engine: Engine
    way: Way
    ask: AdmissionRequest

    @property
    def name(self) -> str:
        return f"{self.engine} · {self.way}"


def chat_lane(
    engine: Engine, way: Way, http: httpx.AsyncClient, url: str, key: str, model: str, tokens: int
) -> Lane:
    """`/v1/chat/completions` at `url`. What runs free is asked with tools that bind nothing."""
    free = engine == "vllm, free"
    fixed = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 1.0,
        "max_tokens": tokens,
        "tool_choice": "auto" if free else "required",
        "chat_template_kwargs": {"enable_thinking": False},
    }
    if free:
        fixed["ignore_eos"] = True
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    async def ask(tools: Tools) -> tuple[float, int]:
        body = fixed | {"messages": [{"role": "user", "content": _text()}]}
        body["tools"] = [_unbound(tool) for tool in tools] if free else list(tools)
        content = json.dumps(body).encode()
        first, usage = await _streamed(
            http, f"{url}/v1/chat/completions", content, headers, b'"usage":{'
        )
        return first, int(usage["usage"]["completion_tokens"])

    return Lane(engine, way, ask)


def raw_lanes(engine: Engine, http: httpx.AsyncClient, tokens: int) -> list[Lane]:
    """Our backend's own wire, enforced and free. `http` as RawBackend takes it."""
    backend = RawBackend(http)
    loaded: dict[int, wire.Enforcement] = {}

    async def enforced(tools: Tools) -> tuple[float, int]:
        if len(tools) not in loaded:
            candidates = tuple(await backend.load(tools))
            loaded[len(tools)] = wire.Enforcement(
                choice="required", candidates=candidates, reasoning="off"
            )
        return await ask(tools, loaded[len(tools)])

    async def free(tools: Tools) -> tuple[float, int]:
        return await ask(tools, None)

    async def ask(tools: Tools, enforcement: wire.Enforcement | None) -> tuple[float, int]:
        sampling = wire.Sampling(max_tokens=tokens, temperature=1.0, ignore_eos=enforcement is None)
        content = await backend.request(_text(), tools, enforcement, sampling)
        first, usage = await _streamed(http, PATH, content, {}, b'"event":"usage"')
        return first, int(usage["completion_tokens"])

    return [Lane(engine, "direct", enforced), Lane(engine, "direct, free", free)]


def _text() -> str:
    return f"Go on. {next(numbers)}"


def _unbound(tool: dict[str, Any]) -> dict[str, Any]:
    return tool | {"function": tool["function"] | {"strict": False}}


async def _streamed(
    http: httpx.AsyncClient, url: str, content: bytes, headers: dict[str, str], usage_mark: bytes
) -> tuple[float, Any]:
    """Seconds to the first event, and the event that counts the tokens. Only that one is read, so
    that this process takes little from the servers'. Raises RuntimeError with what was answered."""
    began = time.perf_counter()
    first, last = 0.0, b""
    async with http.stream("POST", url, content=content, headers=headers) as answer:
        if answer.status_code != 200:
            raise RuntimeError((await answer.aread()).decode(errors="replace")[:300])
        async for line in lines(answer):
            if line.startswith(b"data: {"):
                first = first or time.perf_counter() - began
                if usage_mark in line.replace(b" ", b"") or b'"error"' in line:
                    last = line
    found = json.loads(last.removeprefix(b"data: ") or b"{}")
    if "error" in found or not found:
        raise RuntimeError(f"{url}: {last[:300]!r}")
    return first, found
