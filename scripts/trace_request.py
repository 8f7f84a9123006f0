"""List the files that one streamed request with tools enters in the gateway (`make trace`).

    python scripts/trace_request.py [--api responses] [--route litellm] [--limits]

Runs the gateway in this process, with a scripted backend. The request is sent twice and the second
one is traced, so that grammars and connections exist already. A stay is the time between two calls
into different files, so a helper with many callers has many stays. Prints the files in the order in
which they are entered first, with their numbers of stays, and for each walk how often execution
returns to its file from another file of ours that it called. With `--limits` the request has a
virtual key with limits, counted in Valkey; otherwise it has the master key.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PACKAGES = (ROOT / "proxy" / "toolgate_proxy", ROOT / "core" / "toolgate_core")
SETTINGS = {
    "TOOLGATE_MASTER_KEY": "sk-traced-0123456789",
    "TOOLGATE_BACKEND_KEY": "backend-key",
    "TOOLGATE_KEY_SECRET": "a-secret-for-the-hashes-of-keys",  # as in tests/proxy
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
}
FUNCTION = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
MESSAGES = [{"role": "user", "content": "weather"}]
REQUESTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat_completions": (
        "/v1/chat/completions",
        {
            "messages": MESSAGES,
            "tools": [{"type": "function", "function": FUNCTION}],
            "stream_options": {"include_usage": True},
        },
        "data: [DONE]",
    ),
    "messages": (
        "/v1/messages",
        {
            "messages": MESSAGES,
            "max_tokens": 100,
            "tools": [{"name": FUNCTION["name"], "input_schema": FUNCTION["parameters"]}],
        },
        "event: message_stop",
    ),
    "responses": (
        "/v1/responses",
        {"input": "weather", "tools": [{"type": "function", **FUNCTION}]},
        "event: response.completed",
    ),
}
"""By API: the path, the body, and how the last event begins."""
WALKS = ("pipeline.py", "api/reader.py", "chat/engine.py")


class Trace:
    """A profile function for `sys.setprofile` that records the calls into our files."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.returns: Counter[str] = Counter()
        """By file: the number of calls into other files, from each of which execution returns."""
        self._frames: set[FrameType] = set()
        """Those of these calls. A frame that continues is not another call."""
        self._names: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            name = self._name(frame.f_code)
            if name is None:
                return
            if not self.entered or self.entered[-1] != name:
                self.entered.append(name)
            caller = None if frame.f_back is None else self._name(frame.f_back.f_code)
            if caller not in (None, name) and frame not in self._frames:
                self._frames.add(frame)
                self.returns[str(caller)] += 1

    def _name(self, code: CodeType) -> str | None:
        if code not in self._names:
            path = Path(code.co_filename)
            inside = [package for package in PACKAGES if path.is_relative_to(package)]
            self._names[code] = str(path.relative_to(inside[0].parent)) if inside else None
        return self._names[code]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--route", choices=("auto", "litellm"), default="auto", help="TOOLGATE_ROUTE"
    )
    parser.add_argument("--api", choices=REQUESTS, default="chat_completions")
    parser.add_argument("--limits", action="store_true", help="use a virtual key with limits")
    options = parser.parse_args()
    os.environ.update(SETTINGS, TOOLGATE_ROUTE=options.route)
    asyncio.run(traced(options.api, limits=options.limits))


async def traced(api: str, *, limits: bool) -> None:
    from tests.support.servers.fake_backend import FakeBackend, running
    from tests.support.servers.redis_server import redis_server
    from tests.support.servers.script import Script, call
    from tests.support.servers.virtual_keys import key_of, new_key, put

    with ExitStack() as stack:
        backend = stack.enter_context(running(FakeBackend()))
        backend.scripts["weather"] = Script(("I look.\n" + call("get_weather", {"city": "Bern"}),))
        os.environ["TOOLGATE_BACKEND_URL"] = backend.url
        key = SETTINGS["TOOLGATE_MASTER_KEY"]
        if limits:
            redis = stack.enter_context(redis_server())
            os.environ["TOOLGATE_REDIS_URL"] = redis.url
            key = new_key()
            most = {"rpm": 1000, "tpm": 10**6, "max_parallel_requests": 9}
            await put(redis.url, key_of(key, "traced", **most))
        async with gateway(key) as client:
            await send(client, api)
            trace = Trace()
            sys.setprofile(trace)
            await send(client, api)
            sys.setprofile(None)
    report(trace)


@asynccontextmanager
async def gateway(key: str) -> Any:
    """Run the gateway in this process. Yields a client that uses no sockets."""
    from toolgate_proxy import worker
    from toolgate_proxy.routing import deployments
    from toolgate_proxy.server import launcher

    deployments.PROBE_INTERVAL = 3600
    with tempfile.TemporaryDirectory() as folder:
        launcher.prepare(launcher.write_config([launcher.Route("tiny", "tiny")], Path(folder)))
        application = worker.create()
        async with application.router.lifespan_context(application):
            transport = httpx.ASGITransport(application)
            headers = {"Authorization": f"Bearer {key}"}
            async with httpx.AsyncClient(
                transport=transport, base_url="http://gateway", headers=headers
            ) as client:
                yield client


async def send(client: httpx.AsyncClient, api: str) -> None:
    path, body, end = REQUESTS[api]
    response = await client.post(path, json={"model": "tiny", "stream": True, **body})
    if response.status_code != 200 or end not in response.text:
        raise RuntimeError(response.text[:300])


def report(trace: Trace) -> None:
    stays = Counter(trace.entered)
    for name in dict.fromkeys(trace.entered):
        print(f"{stays[name]:5}  {name}")
    print()
    for walk in WALKS:
        name = f"toolgate_proxy/{walk}"
        print(f"{trace.returns[name]} returns to {name}")
    gateway = [name for name in stays if name.startswith("toolgate_proxy")]
    print(f"{len(gateway)} files of the gateway")
    print(f"{len(stays) - len(gateway)} files of the core")
    print(f"{len(trace.entered)} stays")


if __name__ == "__main__":
    main()
