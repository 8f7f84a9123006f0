"""Print what a checkout does as JSON, for `scripts/same.py`: `snapshot.py PART`.

- lists: settings, metrics, errors.
- schemas: what `toolgate schema` reports on all schemas in $TOOLGATE_SHARED/data; on those of real
  tools in all forms of calls, on the others in one.
- gateway: its routes, and its responses on all three APIs to the golden transcripts of all dialects
  and to recorded streams of a backend: whole, streamed at once, and streamed in two parts.
- verify: the verdicts of `toolgate verify` on tiny models of 15 families.
"""

import asyncio
import gzip
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import uvicorn
from prometheus_client.metrics import MetricWrapperBase
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from toolgate_core import wire
from toolgate_core.chat_shape import MEMBER, PATH
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS

DATA = Path(os.environ["TOOLGATE_SHARED"]) / "data"
CHUNK = 300  # schemas of each command, which compiles them in one process
RECORDED = Path(__file__).parents[1] / "tests/proxy/chat/recorded_streams.json"
KEY = "sk-same"
TOOLGATE = (sys.executable, "-m", "toolgate_proxy")
AUTHORIZED = {"authorization": f"Bearer {KEY}"}
SETTINGS = dict.fromkeys(("MASTER_KEY", "VERIFY_KEY", "BACKEND_KEY", "KEY_SECRET"), KEY)
SETTINGS |= {"WRONG_KEYS_PER_MINUTE": "1000000"}
PORT = 20_000 + os.getpid() % 20_000
TYPES = {"a": "string", "n": "integer", "ok": "boolean", "l": "array", "o": "object"}
SCHEMA = {"type": "object", "properties": {name: {"type": kind} for name, kind in TYPES.items()}}
TOOLS = [{"type": "function", "function": {"name": n, "parameters": SCHEMA}} for n in "fg"]
APIS = ("chat/completions", "responses", "messages")
OURS = [
    *("/", "/docs", "/toolgate/ready", "/toolgate/ready/{model}", "/v1/none", "/none"),
    *(
        "/v1/models",
        "/v1/models/{id}",
        "/v1/messages/count_tokens",
        *(f"/v1/{api}" for api in APIS),
    ),
    *("/v1/responses/input_tokens", "/v1/responses/compact", "/v1/responses/{id}"),
    *("/v1/responses/{id}/cancel", "/v1/responses/{id}/input_items"),
]
"""Paths of the gateway's own, besides those of the administrator."""
CHANGING = re.compile(
    r'("(?:created\w*|completed_at|signature|encrypted_content|obfuscation)": ?)([\d.]+|"[^"]*")'
)
IDS = re.compile(r"\b(?:chatcmpl|resp|msg|fc|ctc|call|toolu|rs|req)[-_][0-9A-Za-z-]{8,}")


def lists() -> Iterator[tuple[str, Any]]:
    for side, package in (("gateway", "toolgate_proxy"), ("backend", "toolgate_backend")):
        described = import_module(f"{package}.settings").Settings.model_json_schema()
        for name, field in described["properties"].items():
            about = {k: v for k, v in field.items() if k not in ("description", "title")}
            yield f"settings/{side}/TOOLGATE_{name.upper()}", about
        folder = Path(import_module(package).__path__[0])
        for path in sorted(folder.rglob("*.py")):
            if "from prometheus_client import" in path.read_text():
                parts = path.relative_to(folder.parent).with_suffix("").parts
                for metric in vars(import_module(".".join(parts))).values():
                    if isinstance(metric, MetricWrapperBase):
                        yield f"metrics/{side}/{metric._name}", [metric._type, metric._labelnames]
    errors: dict[str, list[Any]] = {}
    pending = [import_module("toolgate_core.errors").ToolgateError]
    for kind in pending:
        pending += kind.__subclasses__()
        errors.setdefault(kind.code, []).append([kind.status, kind.type])
    yield from ((f"errors/{code}", sorted(kinds)) for code, kinds in errors.items())


def lines(name: str) -> Iterator[Any]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def suite() -> Iterator[Any]:
    with tarfile.open(DATA / "json-schema-test-suite.tar.gz") as tar:
        for member in tar:
            if member.name.endswith(".json") and "/tests/" in member.name:
                yield from (case["schema"] for case in json.load(tar.extractfile(member)))


def reports(source: str, schemas: Iterator[Any], *options: str) -> Iterator[tuple[str, Any]]:
    distinct = [*dict.fromkeys(json.dumps(each) for each in schemas if isinstance(each, dict))]
    tools = [{"name": f"s{n}", "parameters": json.loads(s)} for n, s in enumerate(distinct)]
    for at in range(0, len(tools), CHUNK):
        given = [{"type": "function", "function": tool} for tool in tools[at : at + CHUNK]]
        command = [*TOOLGATE, "schema", "-", *options]
        done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True)
        text = f"\n{done.stdout}" if done.returncode in (0, 1) else f"\ns{at} on:{done.stderr}"
        for report in text.split("\ns")[1:]:
            yield f"schemas/{source}/s{report.partition(':')[0]}", report.splitlines()


def schemas() -> Iterator[tuple[str, Any]]:
    of_tools = (line["schema"] for line in lines("tool-schemas.jsonl.gz"))
    asked = (t["function"].get("parameters") for c in lines("bfcl.jsonl.gz") for t in c["tools"])
    real = (line["schema"] for line in lines("maskbench.jsonl.gz"))
    yield from reports("tools", of_tools)
    for name, given in (("bfcl", asked), ("maskbench", real), ("suite", suite())):
        yield from reports(name, given, "--dialect", "qwen3")


class Backend:
    """Answers each request with the stream whose number is in its last message."""

    def __init__(self) -> None:
        recorded = json.loads(RECORDED.read_text())
        base = recorded["info"] | {"format": wire.FORMAT}
        self.infos = {"recorded": base}
        self.streams = [("recorded", s["events"], s["params"]) for s in recorded["streams"]]
        self.begun: dict[str, asyncio.Event] = {}
        """By message: whether the client has received something."""
        for name, dialect in DIALECTS.items():
            ids = {text: 100 + at for at, text in enumerate(mark_texts(dialect))}
            marks = {"tokens": ids, "end_of_turn": [1], "failure": 3, "cut": 4}
            self.infos[name] = base | {"dialect": name, "marks": marks}
            for golden in dialect.goldens:
                events = _events(golden.text, ids, golden.reasoning_open)
                self.streams.append((name, events, {"tools": TOOLS}))

    async def respond(self, request: Request) -> Response:
        body = await request.json()
        message = body[MEMBER]
        if message["op"] == "info":
            return JSONResponse(self.infos[request.path_params["model"]])
        asked = re.search(r"stream (\d+) \w+ [\w/]+", json.dumps(body["messages"][-1:]))
        if message["op"] != "generate" or asked is None:
            return JSONResponse({"tokens": 9})
        events, most = self.streams[int(asked[1])][1], message["sampling"].get("n", 1)
        events = [event for event in events if event.get("choice", 0) < most]
        ready = {"status": "ready", "engine": "scripted", "compile_ms": 1.0}
        keys = [each["key"] for each in message.get("grammars", ()) if each.get("report")]
        events = [events[0] | {"verdicts": [{"key": key} | ready for key in keys]}, *events[1:]]
        if not body["stream"]:
            return JSONResponse(events)
        cut = len(events) * 2 // 3 if " parts " in asked[0] else 0
        sent = self._sent(asked[0], [events[:cut], events[cut:]] if cut else [events])
        return StreamingResponse(sent, media_type="text/event-stream")

    async def _sent(self, asked: str, parts: list[Any]) -> AsyncIterator[str]:
        for at, part in enumerate(parts):
            if at:  # only when the client has received what the first part brought
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.begun[asked].wait(), 1)
            yield "".join(f"data: {json.dumps(event)}\n\n" for event in part)


def _events(text: str, ids: dict[str, int], reasoning_open: bool) -> list[dict[str, Any]]:
    """Marks are one token each, the other text has three characters a token."""
    marks = "|".join(map(re.escape, sorted(ids, key=len, reverse=True))) or "(?!)"
    texts = [*re.findall(f"{marks}|(?:(?!{marks}).){{1,3}}", text, re.DOTALL), ""]
    tokens = [{"ids": [ids.get(each, 2 if each else 1)], "texts": [each]} for each in texts]
    return [
        {"event": "start", "prompt_tokens": 9, "reasoning_open": reasoning_open, "max_tokens": 999},
        *({"event": "tokens", "choice": 0, **each} for each in tokens),
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
    cases = [(n, api, way) for n in range(len(backend.streams)) for api in APIS
             for way in ("whole", "once", "parts")]  # fmt: skip
    first: dict[str, int] = {}
    for number, api, way in cases:
        model, _, params = backend.streams[number]
        place = number - first.setdefault(model, number)  # new streams of others do not change it
        asked, text = f"stream {number} {way} {api}", ""
        begun = backend.begun[asked] = asyncio.Event()
        body = request_of(api, params, asked) | {"model": model, "stream": way != "whole"}
        async with http.stream("POST", f"/v1/{api}", json=body, headers=AUTHORIZED) as answer:
            async for part in answer.aiter_text():
                begun.set()
                text += part
        text = CHANGING.sub(r"\1null", text)
        for at, each in enumerate(dict.fromkeys(IDS.findall(text))):
            text = text.replace(each, f"id-{at}")
        if "backend_unavailable" in text:
            sys.exit(f"The scripted backend did not answer {asked!r}: {text[:300]}")
        head = [answer.status_code, answer.headers.get("content-type")]
        found[f"streams/{model}/{place}/{api}/{way}"] = [*head, *text.splitlines()]
    return found


async def routes(http: httpx.AsyncClient) -> dict[str, Any]:
    """The answer of each path of the OpenAPI document to each method without a key, and with one
    if the path is ours."""
    paths = (await http.get("/openapi.json", headers=AUTHORIZED)).json()["paths"]
    ours = {*OURS, *(path for path in paths if path.startswith("/toolgate/"))}
    found: dict[str, Any] = {}
    for path in sorted({*ours, *paths}):
        url = re.sub(r"\{[^}]*\}", "x", path)
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            for key, headers in [
                ("", {}),
                *([(" with a key", AUTHORIZED)] if path in ours else []),
            ]:
                try:
                    answer = await http.request(method, url, content="{}", headers=headers)
                    told = map(answer.headers.get, ("content-type", "allow", "location"))
                    found[f"routes/{method} {path}{key}"] = [answer.status_code, *told]
                except httpx.TransportError as error:
                    found[f"routes/{method} {path}{key}"] = type(error).__name__
    return found


def variables() -> dict[str, str]:
    return os.environ | {f"TOOLGATE_{name}": value for name, value in SETTINGS.items()}


async def gateway() -> dict[str, Any]:
    backend = Backend()
    paths = [Route(f"/{{model}}{PATH}", backend.respond, methods=["POST"])]
    app = Starlette(routes=paths)
    server = uvicorn.Server(uvicorn.Config(app, port=PORT + 1, log_level="error"))
    serving = asyncio.create_task(server.serve())
    models = [f"--model={name}=tiny@http://127.0.0.1:{PORT + 1}/{name}" for name in backend.infos]
    command = [*TOOLGATE, "proxy", f"--port={PORT}", *models]
    started = subprocess.Popen(command, env=variables(), stdout=sys.stderr)  # noqa: ASYNC220
    url = f"http://127.0.0.1:{PORT}"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            alive = False
            while not alive and started.poll() is None:
                await asyncio.sleep(0.5)
                with suppress(httpx.TransportError):
                    alive = (await http.get("/health/liveliness")).is_success
            found = await routes(http) | await responses(http, backend)
    finally:
        started.terminate()
        started.wait(30)
        server.should_exit = True
        await serving
    return found


def verify() -> Iterator[tuple[str, Any]]:
    """The checks send requests whole and streamed."""
    families = [name for name, dialect in DIALECTS.items() if dialect.calls][::5][:15]
    with TemporaryDirectory() as folder:
        for family in families:
            model, report = f"{folder}/{family}", Path(folder) / f"{family}.json"
            make = ("-m", "tests.models.tiny_family", model, "--family", family)
            subprocess.run((sys.executable, *make), check=True, stdout=sys.stderr)
            serve = (*TOOLGATE, "serve", model, f"--name={family}", f"--port={PORT}")
            stack = subprocess.Popen(serve, env=variables(), stdout=subprocess.PIPE, text=True)
            if any("TOOLGATE READY" in line for line in stack.stdout or ()):
                options = (f"--model={family}", f"--json={report}", "--timeout=600")
                command = (*TOOLGATE, "verify", f"http://127.0.0.1:{PORT}", *options)
                subprocess.run(command, env=variables(), stdout=sys.stderr)
            stack.terminate()
            stack.communicate(timeout=120)
            for check in json.loads(report.read_text())["checks"]:
                yield f"verify/{family}/{check['id']}", check["verdict"]


if __name__ == "__main__":
    parts = {"lists": lists, "schemas": schemas, "verify": verify}
    part = sys.argv[1]
    json.dump(asyncio.run(gateway()) if part == "gateway" else dict(parts[part]()), sys.stdout)
