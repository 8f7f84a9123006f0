"""The outermost of the gateway: what comes in is cleaned, what goes out is counted and told.

In: LiteLLM's own request headers (`x-litellm-timeout`, `x-litellm-tags` …) are orders to the
gateway, which are its operator's to give; a request with two different keys is nobody's.
Out: the headers of rate limits; not `x-litellm-model-api-base`, which tells clients where the
backends are. When a request has ended, however it did, what it used is settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core.errors import InvalidKey, PermissionDenied, ToolgateError

from . import meter as meters
from . import request_log
from .auth import may_open
from .meter import Meter
from .service import service

KEY_HEADERS = (
    b"authorization",
    b"x-litellm-api-key",
    b"api-key",
    b"x-api-key",
    b"x-goog-api-key",
    b"ocp-apim-subscription-key",
)
"""Where LiteLLM 1.106.2 looks for a key (proxy/auth/user_api_key_auth.py:837)."""
ORDERS = b"x-litellm-"
HIDDEN = ("x-litellm-model-api-base",)
END_OF_STREAM = b"data: [DONE]"

Header = tuple[bytes, bytes]


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            check_route(scope, the_key(scope["headers"]))
        except ToolgateError as error:
            await JSONResponse(error.body(), error.status)(scope, receive, send)
            return
        scope["headers"] = without_orders(scope["headers"])
        meter = Meter()
        meters.set_out(meter)

        async def metered(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name in HIDDEN:
                    if name in headers:
                        del headers[name]
                headers.update(meter.headers)
                meter.begins(message["status"])
                meter.grammar = headers.get("x-toolgate-grammar")
            elif meter.complete or _is_last(message):
                meter.whole = meter.whole or _is_last(message)
                # Before the client can know that the answer is whole: its next request may be on
                # its way while the last bytes of this one are.
                await _settle(meter)
            await send(message)

        try:
            await self._app(scope, receive, metered)
        finally:
            if meter.admission is not None and not meter.admission.entry.ended:
                _in_background(meter)
            request_log.write(meter, as_json=service().settings.log_format == "json")


def the_key(headers: Iterable[Header]) -> str | None:
    """The key that a request bears. Raises InvalidKey where there are several."""
    values = (value for name, value in headers if name in KEY_HEADERS)
    sent = {value.removeprefix(b"Bearer ").strip() for value in values}
    if len(sent) > 1:
        raise InvalidKey("The request bears several API keys; send one.")
    return sent.pop().decode("latin-1") if sent else None


def check_route(scope: Scope, key: str | None) -> None:
    """Raises PermissionDenied where a virtual key is used for anything but models. `auth.py` says
    the same wherever LiteLLM asks it; some of LiteLLM's routes have an authentication of their own.
    """
    if key is None or may_open(scope["method"], scope["path"]):
        return
    watch = service().watch
    if watch is not None and watch.ring.knows(key):
        raise PermissionDenied("This takes the gateway's master key.")


def without_orders(headers: Iterable[Header]) -> list[Header]:
    return [
        (name, value)
        for name, value in headers
        if name in KEY_HEADERS or not name.startswith(ORDERS)
    ]


def _is_last(message: Message) -> bool:
    if message["type"] != "http.response.body":
        return False
    return not message.get("more_body", False) or _ends_stream(message.get("body", b""))


def _ends_stream(body: bytes) -> bool:
    """By a line of its own: in a JSON string, where a text may speak of it, no line begins."""
    return body.startswith(END_OF_STREAM) or b"\n" + END_OF_STREAM in body


async def _settle(meter: Meter) -> None:
    if meter.admission is not None and not meter.admission.entry.ended:
        await service().limiter.ledger.close(meter.admission.entry)


_tasks: set[asyncio.Task[None]] = set()


def _in_background(meter: Meter) -> None:
    """For a client that has gone: this request's task may be cancelled at any moment."""
    task = asyncio.get_running_loop().create_task(_settle(meter))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
