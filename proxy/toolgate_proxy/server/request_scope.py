"""The outermost middleware: it sanitises request headers, adds response headers, records usage.

Request: removes LiteLLM's control headers (`x-litellm-timeout`, `x-litellm-model` …), which would
let clients change the gateway's settings. Those that only attribute a request stay, within bounds.
Headers with different API keys are rejected.
Response: adds the headers of the request's context (response_headers.py). At the end of the
response the reservation is settled.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core import tracing
from toolgate_core.errors import InvalidRequest, ToolgateError

from ..api.surfaces import surface_of
from ..background import in_background
from ..context import REQUEST_ID, SCOPE, RequestContext, context_of, route_path
from ..keys.header import KEY_HEADERS, Header, key_of
from ..litellm_host.limit_hook import ProviderUsage
from ..metrics import exposition
from ..state import gateway
from . import logs, traffic
from .authorization import is_probe
from .connection import Reply
from .logs import note_cause
from .response_headers import own_headers, response_headers

CONTROL_HEADERS = b"x-litellm-"
ATTRIBUTION = frozenset(
    CONTROL_HEADERS + name
    for name in b"customer-id end-user-id session-id spend-logs-metadata tags trace-id".split()
)
"""Headers that LiteLLM notes in log events and charges a request to, by its own rules. Those that
choose a model, a user, team or agent, time limits, retries or callbacks are not among them."""
KEPT = ATTRIBUTION.union(KEY_HEADERS)
MOST = 4_096
"""Maximum length of their values, in bytes. LiteLLM compares each tag with all others."""
END_OF_STREAM = b"data: [DONE]"


class RequestScope:
    """ASGI middleware that creates the RequestContext of every HTTP request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = RequestContext.with_request_id(Headers(scope=scope).get(REQUEST_ID))
        context.method, context.path = scope["method"], scope["path"]
        scope[SCOPE], outcome, meter = context, context.outcome, context.meter
        surface = traffic.surface_of(scope)

        usage: ProviderUsage | None = None

        async def counted(message: Message) -> None:
            nonlocal usage
            if message["type"] == "http.response.start":
                headers = response_headers(message.get("headers", ()), own_headers(context))
                message = {**message, "headers": headers}
                outcome.begin(message["status"])
                usage = usage_of(message, context)
            elif usage is not None:
                usage.read(message.get("body", b""), last=not message.get("more_body", False))
            if message["type"] != "http.response.start" and (meter.complete or _is_last(message)):
                outcome.sent_whole = outcome.sent_whole or _is_last(message)
                # Before the last bytes are sent: the client's next request may arrive right after
                # them, and its rate-limit headers must be exact.
                await meter.settle()
            await send(message)

        app = self._app
        scope["headers"] = without_control_headers(scope["headers"])
        try:
            key_of(scope["headers"])
            if any(name in ATTRIBUTION and len(value) > MOST for name, value in scope["headers"]):
                raise InvalidRequest(f"An `x-litellm-` header exceeds {MOST:,} bytes. Shorten it.")
        except ToolgateError as error:
            app = _refusing(error)
        app = scraped(scope, gateway().settings.metrics_token) or app
        span = traffic.begin(scope, surface)
        try:
            with tracing.current(span):
                await app(scope, receive, counted)
        except Exception as error:
            note_cause(outcome, error)
            outcome.status = outcome.status or 500  # sent by the server's own handler
            raise
        finally:
            context.release_body()
            if meter.unsettled:
                # In a separate task: this one is cancelled if the client has disconnected.
                in_background(meter.settle())
            traffic.end(context, surface, span)
            as_json = gateway().settings.log_format == "json"
            logs.write(context, as_json=as_json, probe=is_probe(route_path(scope)))


def usage_of(start: Message, context: RequestContext) -> ProviderUsage | None:
    """Return the reader of a response whose tokens count against a limit and which we do not
    count."""
    if context.outcome.failed or not context.meter.uncounted.total:
        return None
    types = [value for name, value in start.get("headers", ()) if name == b"content-type"]
    return ProviderUsage(context.meter, types[0] if types else b"")


def _refusing(error: ToolgateError) -> ASGIApp:
    """Return an app that refuses every request with the error."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        context = context_of(scope)
        context.form = surface_of(scope["path"], Headers(scope=scope))
        await Reply(send, context).fail(error)

    return app


def without_control_headers(headers: Iterable[Header]) -> list[Header]:
    return [
        (name, value)
        for name, value in headers
        if name in KEPT or not name.startswith(CONTROL_HEADERS)
    ]


def _is_last(message: Message) -> bool:
    if message["type"] != "http.response.body":
        return False
    return not message.get("more_body", False) or _ends_stream(message.get("body", b""))


def _ends_stream(body: bytes) -> bool:
    """Return whether a line of `body` is the end marker. Inside JSON strings newlines are
    escaped."""
    return body.startswith(END_OF_STREAM) or b"\n" + END_OF_STREAM in body


SCRAPED = frozenset({"/metrics", "/toolgate/metrics"})


def scraped(scope: Scope, token: SecretStr | None) -> ASGIApp | None:
    """The metrics, or None if the request is not a scrape with the token. `/toolgate/metrics` is
    then answered for the master key, and `/metrics` by LiteLLM."""
    if token is None or scope["method"] != "GET" or scope["path"] not in SCRAPED:
        return None
    scheme, _, sent = Headers(scope=scope).get("authorization", "").partition(" ")
    expected = token.get_secret_value()
    if scheme.lower() != "bearer" or not hmac.compare_digest(sent.encode(), expected.encode()):
        return None
    return Response(exposition(), media_type=CONTENT_TYPE_LATEST)
