"""An upstream that sends 64 tokens at once, so that only the gateway's cost is measured.

    python bench/gateway_overhead/null_upstream.py PORT

`/v1/chat/completions` is vLLM's, and that of a Toolgate backend for messages of a gateway. Each
token is an event and a write of its own, as from a server that samples one token per step. Where
the gateway asks for batches, the tokens after the first are one event, as from a Toolgate backend.
"""

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from toolgate_core import wire
from toolgate_core.chat_shape import MEMBER, PATH, SHAPED, ChatShape

MAX_BYTES = 10_000_000
TOKENS = 64
WORD = " word"
PROMPT_TOKENS = 12
INFO = wire.Info(
    model="fake",
    models=("fake",),
    vllm_version="0",
    adapter="none",
    dialect="qwen3",
    marks=wire.MarkIds(tokens={"<tool_call>": 1, "</tool_call>": 2, "<think>": 3, "</think>": 4}),
    tokenizer="fake",
    grammar_format="1",
    limits=wire.Limits(max_model_len=8192, max_logprobs=20, max_grammars=64),
)

USAGE = {
    "prompt_tokens": PROMPT_TOKENS,
    "completion_tokens": TOKENS,
    "total_tokens": PROMPT_TOKENS + TOKENS,
}
START = wire.StartEvent(prompt_tokens=PROMPT_TOKENS, reasoning_open=False)
END = wire.EndEvent(choice=0, finish_reason="stop", stop_reason=5)
COUNTED = wire.UsageEvent(prompt_tokens=PROMPT_TOKENS, completion_tokens=TOKENS)


def _tokens(count: int) -> wire.TokensEvent:
    return wire.TokensEvent(choice=0, ids=(100,) * count, texts=(WORD,) * count)


RAW = [START, *[_tokens(1)] * TOKENS, END, COUNTED]
RAW_BATCHED = [START, _tokens(1), _tokens(TOKENS - 1), END, COUNTED]
RAW_LINES, RAW_BATCHED_LINES = (
    [b"data: " + event.model_dump_json().encode() + b"\n\n" for event in events]
    for events in (RAW, RAW_BATCHED)
)
RAW_WHOLE = wire.stream_events.dump_json([START, _tokens(TOKENS), END, COUNTED])


def _chunk(**fields: Any) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    return b"data: " + json.dumps(head | fields).encode() + b"\n\n"


def _delta(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    return _chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason}])


OPENAI_LINES = [
    _delta({"role": "assistant", "content": ""}),
    *[_delta({"content": WORD})] * TOKENS,
    _delta({}, "stop"),
    _chunk(choices=[], usage=USAGE),
    b"data: [DONE]\n\n",
]
OPENAI_WHOLE = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "fake",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": WORD * TOKENS},
            "finish_reason": "stop",
        }
    ],
    "usage": USAGE,
}


async def info(_: Request) -> Response:
    return JSONResponse(INFO.model_dump(mode="json"))


async def generate(request: Request) -> Response:
    asked = request.scope[SHAPED]
    if asked["stream"]:
        lines = RAW_BATCHED_LINES if asked[MEMBER].get("batched") else RAW_LINES
        return StreamingResponse(_each(lines), media_type="text/event-stream")
    return Response(RAW_WHOLE, media_type="application/json")


async def completions(request: Request) -> Response:
    if json.loads(await request.body()).get("stream"):
        return StreamingResponse(_each(OPENAI_LINES), media_type="text/event-stream")
    return JSONResponse(OPENAI_WHOLE)


async def _each(lines: list[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


app = Starlette(
    routes=[
        Route("/v1/toolgate/info", info, methods=["GET", "POST"]),
        Route("/v1/toolgate/generate", generate, methods=["POST"]),
        Route(PATH, completions, methods=["POST"]),
    ]
)
app.add_middleware(ChatShape, max_bytes=MAX_BYTES)

if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
