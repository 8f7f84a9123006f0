"""Another provider, with OpenAI's API. Its answers are "word word word"; `PROMPT` and `OUTPUT` are
the tokens that it reports."""

import asyncio
import json
from contextlib import contextmanager

from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from tests.support.servers.loopback import in_thread

PROMPT, OUTPUT = 5, 3
USAGE = {"prompt_tokens": PROMPT, "completion_tokens": OUTPUT, "total_tokens": PROMPT + OUTPUT}
USAGE_OF_RESPONSES = {
    "input_tokens": PROMPT,
    "output_tokens": OUTPUT,
    "total_tokens": PROMPT + OUTPUT,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
PAUSE = 0.02
"""Seconds between the events of a stream."""


class FakeProvider:
    """A stream has as many words as its last message asks for: `12 words`; otherwise OUTPUT."""

    def __init__(self):
        self.url = ""
        self.left = 0
        """Streams that were closed before their end."""

    def app(self):
        routes = {"chat/completions": self._chat, "embeddings": _embedding, "responses": _response}
        return Starlette(
            routes=[Route(f"/v1/{path}", at, methods=["POST"]) for path, at in routes.items()]
        )

    async def _chat(self, request):
        body = await request.json()
        asked = str(body["messages"][-1]["content"]).split()
        words = int(asked[0]) if asked[0].isdigit() else OUTPUT
        if body.get("stream"):
            with_usage = (body.get("stream_options") or {}).get("include_usage")
            content = self._chunks(words, with_usage=bool(with_usage))
            return StreamingResponse(content, media_type="text/event-stream")
        await asyncio.sleep(PAUSE * words)
        message = {"role": "assistant", "content": "word " * words}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse(_chat_object("chat.completion", choices=[choice], usage=USAGE))

    async def _chunks(self, words, *, with_usage):
        whole = False
        try:
            for at in range(words + 1):
                delta = {"role": "assistant", "content": "word "} if at < words else {}
                reason = "stop" if at == words else None
                choice = {"index": 0, "delta": delta, "finish_reason": reason}
                yield _event(_chat_object("chat.completion.chunk", choices=[choice]))
                await asyncio.sleep(PAUSE)
            if with_usage:
                yield _event(_chat_object("chat.completion.chunk", choices=[], usage=USAGE))
            yield "data: [DONE]\n\n"
            whole = True
        finally:
            self.left += not whole


async def _embedding(_):
    data = [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}]
    usage = {"prompt_tokens": PROMPT, "total_tokens": PROMPT}
    return JSONResponse({"object": "list", "model": "m", "data": data, "usage": usage})


async def _response(request):
    body = await request.json()
    part = {"type": "output_text", "text": "word word word", "annotations": []}
    item = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
    whole = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed",
        "output": [{**item, "content": [part]}], "parallel_tool_calls": True, "tools": [],
        "tool_choice": "auto", "usage": USAGE_OF_RESPONSES,
    }  # fmt: skip
    if not body.get("stream"):
        return JSONResponse(whole)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    delta = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "word word word"}
    events = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_text.delta", **delta},
        {"type": "response.completed", "response": whole},
    ]
    content = (_event({**each, "sequence_number": at}) for at, each in enumerate(events))
    return StreamingResponse(content, media_type="text/event-stream")


def _chat_object(kind, **more):
    return {"id": "c1", "object": kind, "created": 1, "model": "m", **more}


def _event(value):
    return f"data: {json.dumps(value)}\n\n"


@contextmanager
def running(provider):
    with in_thread(provider.app()) as url:
        provider.url = f"{url}/v1"
        yield provider
