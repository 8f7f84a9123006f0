"""Print a gateway's routes, and its responses to recorded token streams, as JSON, for
`scripts/same.py`.

The gateway's backend is scripted. It answers with the golden transcripts of all dialects, and with
the streams in tests/proxy/chat/recorded_streams.json beside this script, on all three APIs: whole,
streamed at once, and streamed in two parts.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from toolgate_core import wire
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.dialects.usual_marks import marks_of

RECORDED = Path(__file__).parents[2] / "tests/proxy/chat/recorded_streams.json"
SECRETS = {"MASTER_KEY": "sk-same", "BACKEND_KEY": "backend", "KEY_SECRET": "a-secret-for-hashes"}
HEADERS = ("content-type", "allow", "location")
PORT = 20_000 + os.getpid() % 20_000
TYPES = {"a": "string", "n": "integer", "ok": "boolean", "l": "array", "o": "object"}
SCHEMA = {"type": "object", "properties": {name: {"type": kind} for name, kind in TYPES.items()}}
TOOLS = [{"type": "function", "function": {"name": n, "parameters": SCHEMA}} for n in "fg"]
CHANGING = (
    (re.compile(r'("(?:created|created_at|completed_at)":\s?)[\d.]+'), r"\g<1>0"),
    (re.compile(r'("(?:signature|encrypted_content|obfuscation)":\s?)"[^"]*"'), r'\1""'),
)
IDS = re.compile(r"\b(chatcmpl|resp|msg|fc|ctc|call|toolu|rs|req)[-_][0-9A-Za-z-]{8,}")


class Backend:
    """Answers each request with the stream whose number is in its last message."""

    def __init__(self) -> None:
        recorded = json.loads(RECORDED.read_text())
        base = recorded["info"] | {"format": wire.FORMAT}
        self.infos = {"recorded": base}
        self.streams = [
            ("recorded", each["events"], each["params"]) for each in recorded["streams"]
        ]
        self.begun: dict[str, asyncio.Event] = {}
        """By message: whether the client has received something."""
        for name, dialect in DIALECTS.items():
            ids = {text: 100 + at for at, text in enumerate(marks_of(dialect))}
            marks = {"tokens": ids, "end_of_turn": [1], "failure": 3, "closed": 4}
            self.infos[name] = base | {"dialect": name, "marks": marks}
            for golden in dialect.goldens:
                events = _events(golden.text, ids, golden.reasoning_open)
                self.streams.append((name, events, {"tools": TOOLS}))

    async def __call__(self, request: Request) -> Response:
        if request.method == "GET":
            return JSONResponse(self.infos[request.path_params["model"]])
        body = await request.json()
        if "grammars" in body:
            ready = {"status": "ready", "engine": "scripted", "compile_ms": 1.0}
            return JSONResponse(
                {"grammars": [{"key": g["key"], **ready} for g in body["grammars"]]}
            )
        asked = re.search(r"stream (\d+) \w+ \S+", json.dumps(body["prompt"]["messages"][-1]))
        if "sampling" not in body or asked is None:
            return JSONResponse({"tokens": 9})
        events, most = self.streams[int(asked[1])][1], body["sampling"].get("n", 1)
        events = [event for event in events if event.get("choice", 0) < most]
        if not body["stream"]:
            return JSONResponse(events)
        cut = len(events) * 2 // 3 if " parts " in asked[0] else len(events)
        sent = self._sent(asked[0].rstrip('"}]'), [events[:cut], events[cut:]])
        return StreamingResponse(sent, media_type="text/event-stream")

    async def _sent(self, asked: str, parts: list[Any]) -> AsyncIterator[str]:
        for part in filter(None, parts):
            yield "".join(f"data: {json.dumps(event)}\n\n" for event in part)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.begun[asked].wait(), 1)


def _events(text: str, ids: dict[str, int], reasoning_open: bool) -> list[dict[str, Any]]:
    """Marks are one token each, the other text has three characters a token."""
    marks = "|".join(map(re.escape, sorted(ids, key=len, reverse=True))) or "(?!)"
    tokens = [*re.findall(f"{marks}|(?:(?!{marks}).){{1,3}}", text, re.DOTALL), ""]
    return [
        {"event": "start", "prompt_tokens": 9, "reasoning_open": reasoning_open, "max_tokens": 999},
        *(
            {
                "event": "tokens",
                "choice": 0,
                "ids": [ids.get(each, 2 if each else 1)],
                "texts": [each],
            }
            for each in tokens
        ),
        {"event": "end", "choice": 0, "finish_reason": "stop", "stop_reason": 1},
        {"event": "usage", "prompt_tokens": 9, "completion_tokens": len(tokens)},
    ]


def request_of(api: str, params: dict[str, Any], asked: str) -> dict[str, Any]:
    functions = [tool["function"] for tool in params.get("tools", ())]
    messages = [{"role": "user", "content": asked}]
    if api == "chat/completions":
        return {"messages": messages, **params}
    if api == "responses":
        return {"input": asked, "tools": [{"type": "function", **each} for each in functions]}
    tools = [{"name": each["name"], "input_schema": each["parameters"]} for each in functions]
    thinking = {"type": "enabled", "budget_tokens": 1_024}
    return {"messages": messages, "tools": tools, "max_tokens": 2_000, "thinking": thinking}


async def responses(http: httpx.AsyncClient, backend: Backend) -> dict[str, Any]:
    """Ids are numbered in their order. Times and signatures are left out."""
    found: dict[str, Any] = {}
    for number, (model, _, params) in enumerate(backend.streams):
        for api in ("chat/completions", "responses", "messages"):
            for way in ("whole", "once", "parts"):
                asked = f"stream {number} {way} {api}"
                backend.begun[asked] = asyncio.Event()
                body = request_of(api, params, asked) | {"model": model, "stream": way != "whole"}
                async with http.stream("POST", f"/v1/{api}", json=body) as answer:
                    text = ""
                    async for part in answer.aiter_text():
                        backend.begun[asked].set()
                        text += part
                for pattern, new in CHANGING:
                    text = pattern.sub(new, text)
                for at, each in enumerate(dict.fromkeys(m[0] for m in IDS.finditer(text))):
                    text = text.replace(each, f"id-{at}")
                head = [answer.status_code, answer.headers.get("content-type")]
                found[f"streams/{model}/{number}/{api}/{way}"] = [*head, *text.splitlines()]
    return found


async def routes(http: httpx.AsyncClient) -> dict[str, Any]:
    """The answer of each path of the OpenAPI documents to each method without a key, and with one
    if the path is ours."""
    ours = (await http.get("/toolgate/openapi.json")).json()["paths"]
    found: dict[str, Any] = {f"openapi{path}": about for path, about in ours.items()}
    ours |= dict.fromkeys(["/", "/docs", "/toolgate/openapi.json", "/v1/none", "/none"])
    for path in {**ours, **(await http.get("/openapi.json")).json()["paths"]}:
        url = re.sub(r"\{[^}]*\}", "x", path)
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            for key in ("", "sk-same") if path in ours else ("",):
                more = {"headers": {"authorization": f"Bearer {key}" * bool(key)}}
                answer = await http.request(method, url, content="{}", **more)
                told = [answer.status_code, *map(answer.headers.get, HEADERS)]
                found[f"routes/{method} {path}{' with a key' * bool(key)}"] = told
    return found


async def main() -> None:
    backend, url = Backend(), f"http://127.0.0.1:{PORT}"
    paths = [Route("/{model}/v1/toolgate/{what}", backend, methods=["GET", "POST", "PUT"])]
    config = uvicorn.Config(Starlette(routes=paths), port=PORT + 1, log_level="error")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    models = [f"--model={name}=tiny@http://127.0.0.1:{PORT + 1}/{name}" for name in backend.infos]
    command = [sys.executable, "-m", "toolgate_proxy", "proxy", f"--port={PORT}", *models]
    variables = os.environ | {f"TOOLGATE_{name}": value for name, value in SECRETS.items()}
    gateway = subprocess.Popen(command, env=variables, stdout=sys.stderr)  # noqa: ASYNC220
    try:
        headers = {"authorization": "Bearer sk-same"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as http:
            alive = False
            while not alive and gateway.poll() is None:
                await asyncio.sleep(0.5)
                with suppress(httpx.TransportError):
                    alive = (await http.get("/health/liveliness")).is_success
            found = await routes(http) | await responses(http, backend)
    finally:
        gateway.terminate()
        gateway.wait(30)
        server.should_exit = True
        await serving
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
