"""The gateway's own route in front of a stub of LiteLLM's app, in this process."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from tests.support.litellm.router import Row, row
from tests.support.servers.fake_backend import KEY, FakeBackend
from tests.support.servers.virtual_keys import key_of
from tests.support.waiting import until
from toolgate_core.wire import ChatPrompt
from toolgate_proxy.api.surfaces import RequestReader
from toolgate_proxy.app import Gateway as App
from toolgate_proxy.backend_client.event_stream import SseParser
from toolgate_proxy.context import RequestContext, context_of
from toolgate_proxy.keys.key import Key
from toolgate_proxy.litellm_host.context import current
from toolgate_proxy.state import GatewayState

MASTER = "sk-master"
CHAT = "/v1/chat/completions"
PATHS = {"chat": CHAT, "responses": "/v1/responses", "messages": "/v1/messages"}
TICK = 0.05
Header = tuple[bytes, bytes]


@dataclass
class Passed:
    """A request that LiteLLM's app got."""

    path: str
    headers: dict[bytes, bytes]
    body: bytes
    context: RequestContext
    carried: RequestContext


@dataclass
class Host:
    """LiteLLM's app: answers everything with 299, or with an error, after a pause."""

    passed: list[Passed] = field(default_factory=list)
    pause: float = 0.0
    error: int | None = None
    """The status of the error."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", scope["method"] == "POST"
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = dict(scope["headers"])
        self.passed.append(Passed(scope["path"], headers, body, context_of(scope), current()))
        await asyncio.sleep(self.pause)
        status = self.error or (200 if self.pause else 299)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"data: litellm\n\n"})


@dataclass
class Response:
    messages: list[Message]
    context: RequestContext

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages[1:]]

    @property
    def json(self) -> Any:
        return json.loads(b"".join(self.bodies))

    @property
    def events(self) -> list[Any]:
        payloads = SseParser().feed(b"".join(self.bodies))
        return [json.loads(data) for data in payloads if data != b"[DONE]"]

    @property
    def text(self) -> str:
        if self.headers[b"content-type"] == b"application/json":
            return str(self.json["choices"][0]["message"]["content"])
        deltas = [choice["delta"] for event in self.events for choice in event["choices"]]
        return "".join(delta.get("content") or "" for delta in deltas)


class Gateway:
    def __init__(self, here: GatewayState, backend: FakeBackend) -> None:
        self.here = here
        self.backend = backend
        self.host = Host()
        self._app = App(self.host)

    def add_key(self, sent: str, key: Key) -> None:
        assert self.here.key_sync is not None
        key = key.model_copy(update={"secrets": key_of(sent).secrets})
        self.here.key_sync.key_cache.replace([], [key])

    def configure(self, **changes: Any) -> None:
        """Change settings that requests are read and constrained by."""
        here = self.here
        here.settings = here.settings.model_copy(update=changes)
        here.reader = RequestReader(here.settings, here.sealer)
        here.engine.settings = here.settings

    async def ask(
        self,
        body: object,
        *,
        path: str = CHAT,
        key: str | None = MASTER,
        headers: Sequence[Header] = (),
        method: str = "POST",
        query: str = "",
        leave_after: float | asyncio.Event | Callable[[bytes], object] | None = None,
        within: float = 20,
    ) -> Response:
        """`leave_after`: seconds, or the event, after which the client disconnects, or a function
        that is true of the body sent so far when it does.
        `within`: seconds in which the response must end."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        unread: list[Message] = [{"type": "http.request", "body": data, "more_body": False}]
        sent: list[Message] = []

        async def receive() -> Message:
            if unread:
                return unread.pop()
            if leave_after is None or isinstance(leave_after, asyncio.Event):
                await (leave_after or asyncio.Event()).wait()
            elif callable(leave_after):
                leaves = leave_after
                await until(lambda: leaves(b"".join(each.get("body", b"") for each in sent)))
            else:
                await asyncio.sleep(leave_after)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        scope: Scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(),
            "root_path": "", "query_string": query.encode(), "scheme": "http", "server": ("x", 80),
            "client": ("10.0.0.1", 1), "headers": list(headers),
        }  # fmt: skip
        if key is not None:
            scope["headers"].append((b"authorization", f"Bearer {key}".encode()))
        async with asyncio.timeout(within):
            await self._app(scope, receive, send)
        return Response(sent, context_of(scope))


def ours(backend: FakeBackend, group: str = "tiny", **params: Any) -> Row:
    return row("a", group=group, api_base=backend.url, api_key=KEY, **params)


def chat(content: str = "hi", model: str | None = "tiny", **params: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": content}], **params}
    return body if model is None else {"model": model, **body}


def body_of(api: str, content: str = "hi", **params: Any) -> dict[str, Any]:
    """A request to the API at PATHS."""
    said = [{"role": "user", "content": content}]
    of_api: dict[str, dict[str, Any]] = {
        "chat": {"messages": said},
        "responses": {"input": said},
        "messages": {"messages": said, "max_tokens": 100},
    }
    return {"model": "tiny", **of_api[api], **params}


def asked(backend: FakeBackend) -> list[str]:
    """The last message of each request that came to the backend."""
    prompts = [request.prompt for request in backend.requests]
    assert all(isinstance(prompt, ChatPrompt) for prompt in prompts)
    return [prompt.messages[-1]["content"] for prompt in prompts if isinstance(prompt, ChatPrompt)]
