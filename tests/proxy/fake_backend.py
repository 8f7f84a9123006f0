"""A backend that answers by script: the wire of `toolgate_core.wire`, with faults on demand.

A request is answered by the script whose name is its last user message. Text is written with its
marks spelt out (`<think>`, `<tool_call>` …) and cut into tokens of a few characters.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from toolgate_core import wire

KEY = "backend-key"
MARKS = {
    "<tool_call>": 1,
    "</tool_call>": 2,
    "<think>": 3,
    "</think>": 4,
    "<|im_end|>": 5,
    "<failure>": 6,
}
INFO = wire.Info(
    model="tiny",
    models=("tiny",),
    vllm_version="0.0",
    adapter="fake",
    dialect="qwen3",
    marks=wire.MarkIds(
        call_begin=1,
        call_end=2,
        reasoning_begin=3,
        reasoning_end=4,
        end_of_turn=(5,),
        failure=6,
    ),
    tokenizer="tok",
    grammar_format="1",
    limits=wire.Limits(max_model_len=4096, max_logprobs=20, max_grammars=64),
)


def call(name: str, arguments: dict[str, Any] | str) -> str:
    """A call as the dialect qwen3 writes it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return f'<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>'


def blob_of(name: str) -> str:
    """What stands for a compiled grammar."""
    return base64.b64encode(name.encode() * 10).decode()


@dataclass
class Script:
    """One answer. `texts` holds one choice's text each; n choices take them in turn."""

    texts: tuple[str, ...]
    finish: str = "stop"
    reasoning_open: bool = False
    prompt_tokens: int = 11
    cached_tokens: int = 3
    pause: float = 0.0
    queued: float = 0.0
    """Seconds before anything but keep-alives comes."""
    error_status: int | None = None
    """Refuse the request with this status and `error`."""
    error: dict[str, Any] = field(default_factory=dict)
    error_after: int | None = None
    """Send an error event after so many tokens of each choice."""
    break_after: int | None = None
    """Drop the connection after so many tokens of each choice."""
    hang_after: int | None = None
    """Go silent, but for keep-alives, after so many tokens of each choice."""
    again: tuple[str, ...] = ()
    """What comes when a choice is sampled again, in turn: the text behind what was accepted."""


def tokenize(text: str, size: int = 3) -> list[tuple[int, str]]:
    tokens: list[tuple[int, str]] = []
    for part in re.split(f"({'|'.join(map(re.escape, MARKS))})", text):
        if part in MARKS:
            tokens.append((MARKS[part], part))
        else:
            cut = (part[at : at + size] for at in range(0, len(part), size))
            tokens.extend((100 + ord(piece[0]), piece) for piece in cut)
    return tokens


class FakeBackend:
    """Scripts in, requests out. It runs in a thread; what it saw can be read at leisure."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.requests: list[wire.GenerateRequest] = []
        self.loads: list[tuple[str, ...]] = []
        self.loaded: set[str] = set()
        self.sources: list[wire.GrammarSource] = []
        self.compiles: Counter[str] = Counter()
        """By key: how often a grammar was sent that was neither loaded nor examined elsewhere."""
        self.load_pause = 0.0
        self.residual: dict[str, tuple[wire.ResidualKeyword, ...]] = {}
        """By tool name: what its verdict says that the masks leave open."""
        self.lacking = 0
        """How often it answered grammar_unknown."""
        self.info = INFO
        self.running = 0
        self.left: list[float] = []
        """When clients hung up before the end of their answer, by time.monotonic."""
        self.url = ""

    def forget(self) -> None:
        """As a restart would."""
        self.loaded.clear()

    async def idle_within(self, seconds: float) -> bool:
        """Whether no answer is under way any more, at the latest after so many seconds."""
        deadline = time.monotonic() + seconds
        while self.running and time.monotonic() < deadline:  # noqa: ASYNC110  another thread's
            await asyncio.sleep(0.005)
        return self.running == 0

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/toolgate/info", self._info),
                Route("/v1/toolgate/grammars", self._grammars, methods=["PUT"]),
                Route("/v1/toolgate/generate", self._generate, methods=["POST"]),
            ]
        )

    async def _info(self, request: Request) -> Response:
        if refusal := _unauthorized(request):
            return refusal
        return JSONResponse(self.info.model_dump(mode="json"))

    async def _grammars(self, request: Request) -> Response:
        message = wire.LoadGrammars.model_validate_json(await request.body())
        self.loads.append(tuple(source.name for source in message.grammars))
        verdicts = []
        self.sources += message.grammars
        self.compiles.update(
            source.key
            for source in message.grammars
            if source.key not in self.loaded and not source.examined
        )
        await asyncio.sleep(self.load_pause)
        for source in message.grammars:
            if source.name.startswith("refused") or "not" in source.parameters:
                verdicts.append(
                    wire.GrammarVerdict(
                        key=source.key,
                        status="refused",
                        reason="no `not`.",
                        pointer="/not",
                        code="schema_not_enforceable",
                    )
                )
                continue
            self.loaded.add(source.key)
            heavy = message.want_blobs and source.name.startswith("heavy")
            verdicts.append(
                wire.GrammarVerdict(
                    key=source.key,
                    status="ready",
                    engine="fake",
                    compile_ms=1.0,
                    residual=self.residual.get(source.name, ()),
                    blob=blob_of(source.name) if heavy else None,
                )
            )
        answer = wire.GrammarVerdicts(grammars=tuple(verdicts))
        return JSONResponse(answer.model_dump(mode="json"))

    async def _generate(self, request: Request) -> Response:
        if refusal := _unauthorized(request):
            return refusal
        message = wire.GenerateRequest.model_validate_json(await request.body())
        self.requests.append(message)
        assert message.enforcement is not None
        missing = [c.key for c in message.enforcement.candidates if c.key not in self.loaded]
        if missing:
            self.lacking += 1
            error = {"message": "?", "type": "x", "code": "grammar_unknown", "keys": missing}
            return JSONResponse({"error": error}, 409)
        assert isinstance(message.prompt, wire.ChatPrompt)
        script = self.scripts[str(message.prompt.messages[-1]["content"])]
        if script.error_status is not None:
            return JSONResponse({"error": script.error}, script.error_status)
        if message.stream:
            return StreamingResponse(self._sse(script, message), media_type="text/event-stream")
        return await self._whole(script, message, request)

    async def _sse(self, script: Script, message: wire.GenerateRequest) -> AsyncIterator[str]:
        with self._counted():
            yield ": keep-alive\n\n"
            await asyncio.sleep(script.queued)
            async for event in self._events(script, message):
                yield ": hm\n\n" if event is None else f"data: {event.model_dump_json()}\n\n"

    async def _whole(
        self, script: Script, message: wire.GenerateRequest, request: Request
    ) -> Response:
        events = []
        with self._counted():
            async for event in self._events(script, message):
                if event is not None:
                    events.append(event.model_dump(mode="json"))
                if await request.is_disconnected():
                    raise asyncio.CancelledError
        return JSONResponse(events)

    async def _events(
        self, script: Script, message: wire.GenerateRequest
    ) -> AsyncIterator[wire.StreamEvent | None]:
        n = message.sampling.n
        if again := re.search(r"chatcmpl-[0-9a-f]+-(\d+)-(\d+)$", message.request_id):
            script = replace(script, texts=(script.again[int(again[2]) - 1],))
        texts = [script.texts[at % len(script.texts)] for at in range(n)]
        if script.finish == "stop":
            texts = [text + "<|im_end|>" for text in texts]
        turns = [tokenize(text) for text in texts]
        limit = min(message.sampling.max_tokens or 10_000, 10_000)
        yield wire.StartEvent(
            prompt_tokens=script.prompt_tokens,
            reasoning_open=script.reasoning_open,
            max_tokens=message.sampling.max_tokens or 4000,
            prompt_token_ids=tuple(range(script.prompt_tokens))
            if message.return_prompt_ids
            else None,
        )
        for at in range(max(map(len, turns))):
            if at == script.error_after:
                error = {"message": "It broke.", "code": "enforcement_failed"}
                yield wire.ErrorEvent(status=500, error=error)
                return
            if at == script.break_after:
                raise ConnectionError("by script")
            while script.hang_after is not None and at >= script.hang_after:
                yield None
                await asyncio.sleep(0.05)
            for choice, turn in enumerate(turns):
                if at < min(len(turn), limit):
                    shown = _tokens(choice, *turn[at], logprobs=message.sampling.logprobs)
                    first = at == 0 and choice == 0
                    cached = script.cached_tokens if first else None
                    yield shown.model_copy(update={"cached_tokens": cached})
            if script.pause:
                await asyncio.sleep(script.pause)
        for choice, turn in enumerate(turns):
            cut = script.finish == "length" or len(turn) > limit
            yield wire.EndEvent(
                choice=choice,
                finish_reason="length" if cut else "stop",
                stop_reason=None if cut else turn[-1][0],
            )
        yield wire.UsageEvent(
            prompt_tokens=script.prompt_tokens,
            completion_tokens=sum(min(len(turn), limit) for turn in turns),
            cached_tokens=script.cached_tokens,
        )

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.running += 1
        try:
            yield
        except BaseException:
            self.left.append(time.monotonic())
            raise
        finally:
            self.running -= 1


def _tokens(choice: int, token: int, text: str, *, logprobs: int | None) -> wire.TokensEvent:
    told = None
    if logprobs is not None:
        raw = tuple(text.encode())
        top = tuple(
            wire.TopLogprob(token=f"{text}{at}", bytes=raw, logprob=-1.0 - at)
            for at in range(logprobs)
        )
        told = (wire.TokenLogprob(token=text, bytes=raw, logprob=-0.5, top=top),)
    return wire.TokensEvent(choice=choice, ids=(token,), texts=(text,), logprobs=told)


def _unauthorized(request: Request) -> Response | None:
    if request.headers.get("authorization") == f"Bearer {KEY}":
        return None
    return JSONResponse({"error": "Unauthorized"}, 401)


@contextmanager
def running(backend: FakeBackend, port: int = 0) -> Iterator[FakeBackend]:
    """Serves the backend at a port of the loopback interface; a free one, if none is named. At the
    end it is gone at once, as if it had been killed."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    backend.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(backend.app(), log_level="critical"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield backend
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(5)
        listener.close()
