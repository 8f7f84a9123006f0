"""The outermost middleware: it sanitises request headers, adds response headers, records usage.

Request: removes LiteLLM's control headers (`x-litellm-timeout`, `x-litellm-model` …), which would
let clients change the gateway's settings. Those that only attribute a request stay, within bounds.
Headers with different API keys are rejected.
Response: adds headers, and checks all of them. At its end the reservation is settled.

Parts of header values come from others: parameters of clients, names of models and tools, headers
of other providers. A line break in a value would end the headers, and clients and load balancers
close the connection if headers are too large. So each value is checked here, after all code that
sets it.

Headers that Toolgate adds:

- `x-request-id`: the client's own, or a generated one. The backend's logs contain it, too.
- `x-toolgate-grammar: known | new; n=<grammars>`: `new` if a backend had to report on one.
- `x-toolgate-enforced: full | residual | none`: masks enforce the whole schema of every tool; some
  keywords are only validated; there was nothing to enforce.
- `x-toolgate-fallback: not-enforced`: another provider's model answered for a Toolgate model.
- `x-toolgate-residual: <tools with such keywords>; keywords=<the keywords>`.
- `x-toolgate-omitted-tools: <types>`: hosted tools that were left out of the request.
- `x-toolgate-history: <change>=<paths>; …`: what the model sees of the conversation so far in
  another form than it was sent.
- `x-toolgate-invalid-tools: <name>; at=<JSON Pointer>, …`: invalid tools that were left out.
- `x-toolgate-corrected: <tools with slips in their schemas>; keywords=<the keywords>`: the slips
  were read as they were meant.
- `x-toolgate-max-tokens: <number>`: `max_tokens` was lowered to what the context leaves.
- `x-toolgate-dropped-messages: <number>`: the oldest messages, dropped by `truncation: "auto"`.
- `x-toolgate-resamples: <times a choice was sampled again>`; in a stream, before its first event.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core import tracing
from toolgate_core.errors import InvalidRequest, ToolgateError

from ..api.surfaces import surface_of
from ..background import in_background
from ..context import REQUEST_ID, SCOPE, Notes, RequestContext, keywords_note, route_path
from ..keys.access import KEY_HEADERS, Header, key_of, may_open
from ..metrics import exposition
from ..state import gateway
from . import logs, traffic
from .authorization import is_probe
from .connection import Reply
from .logs import note_cause

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
        scope["path"] = without_slash(scope["path"])
        context.method, context.path = scope["method"], scope["path"]
        scope[SCOPE], outcome, meter = context, context.outcome, context.meter
        surface = traffic.surface_of(scope)

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = response_headers(message.get("headers", ()), own_headers(context))
                message = {**message, "headers": headers}
                outcome.begin(message["status"])
            elif meter.complete or _is_last(message):
                outcome.sent_whole = outcome.sent_whole or _is_last(message)
                # Before the last bytes are sent: the client's next request may arrive right after
                # them, and its rate-limit headers must be exact.
                await meter.settle()
            await send(message)

        scope["headers"] = without_control_headers(scope["headers"])
        app = scraped(scope, gateway().settings.metrics_token) or self._checked
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

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the key of a request. Refuse it by its headers, or let the app respond."""
        context: RequestContext = scope[SCOPE]
        try:
            context.caller.sent_key = key_of(scope["headers"]) or ""
            if any(name in ATTRIBUTION and len(value) > MOST for name, value in scope["headers"]):
                raise InvalidRequest(f"An `x-litellm-` header exceeds {MOST:,} bytes. Shorten it.")
        except ToolgateError as error:
            context.form = surface_of(scope["path"], Headers(scope=scope))
            await Reply(send, context).fail(error)
            return
        await self._app(scope, receive, send)


def without_slash(path: str) -> str:
    """Return a path, without a slash at its end that some clients add to those of an API."""
    short = path.rstrip("/")
    is_api = surface_of(short, ()) or may_open("POST", short) or may_open("GET", short)
    return short if is_api else path


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
    """Return whether a line of `body` is the end marker. JSON strings have no newlines."""
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


HIDDEN = {b"x-litellm-model-api-base"}
"""It has the address of a backend."""
EXPOSED = b"access-control-expose-headers"
"""Names of headers that scripts of other origins may read. All of a response are exposed."""
COSTS = (b"x-litellm-response-cost", b"x-litellm-classifier-cost", b"x-litellm-key-spend")
"""Beginnings of headers that are hidden if they are zero, as they are without prices."""
ZERO = re.compile(rb"0(\.0*)?")
MAX_OWN = 1_024
"""Maximum length of a value of our own, in bytes. A longer one is cut."""
MAX_OTHER = 8_000
"""Maximum length of another value, in bytes. A header with a longer one is left out: a part of a
cookie or a location has another meaning."""
CUT = b"..."
_UNSAFE = re.compile(rb"[^\t\x20-\x7e\x80-\xff]")
"""Bytes that no value may have (RFC 9110, section 5.5)."""
_NOT_PRINTABLE = re.compile(r"[^\x20-\x7e]")


def response_headers(sent: Iterable[Header], ours: Mapping[str, str]) -> list[Header]:
    """`sent`: as the app sent them; `ours`: those that Toolgate adds, which replace them."""
    added = {name.encode(): own_value(value) for name, value in ours.items()}
    headers = [
        (name, _UNSAFE.sub(b"?", value))
        for name, value in sent
        if name not in added and name not in HIDDEN and len(value) <= MAX_OTHER
    ]
    headers += added.items()
    if any(name == b"access-control-allow-origin" for name, _ in headers):
        names = sorted({name for name, _ in headers})
        headers = [each for each in headers if each[0] != EXPOSED]
        headers.append((EXPOSED, b", ".join(names)))
    return [
        (name, value)
        for name, value in headers
        if not name.startswith(COSTS) or ZERO.fullmatch(value) is None
    ]


def own_headers(context: RequestContext) -> dict[str, str]:
    """Return the headers that Toolgate adds to the response."""
    headers, notes, enforced = dict[str, str](), context.notes, context.notes.enforced
    if context.request_id is not None:
        headers[REQUEST_ID] = context.request_id
        if context.form is not None and context.form.request_id_header:
            headers[context.form.request_id_header] = context.request_id
    values = {
        "x-toolgate-omitted-tools": ",".join(notes.omitted_tools),
        "x-toolgate-history": _history(notes),
        "x-toolgate-invalid-tools": _invalid_tools(notes),
        "x-toolgate-corrected": keywords_note(notes.corrected),
        "x-toolgate-dropped-messages": str(notes.dropped_messages or ""),
        "x-toolgate-ignored-parameters": ",".join(notes.ignored_parameters),
        "x-litellm-model-group": context.fallback,
        "x-litellm-attempted-fallbacks": context.fallback and str(context.attempted_fallbacks),
        "x-toolgate-fallback": "not-enforced" if notes.is_fallback else None,
        "x-toolgate-enforced": enforced,
        "x-toolgate-grammar": enforced and notes.grammars_note,
        "x-toolgate-residual": enforced and keywords_note(notes.residual),
        "x-toolgate-resamples": enforced and str(notes.resamples or ""),
    }
    headers |= {**notes.host_headers, **notes.headers}
    return headers | {name: value for name, value in values.items() if value}


def _history(notes: Notes) -> str:
    paths: dict[str, list[str]] = {}
    for change in notes.history_changes:
        paths.setdefault(change.kind, []).append(change.path)
    return "; ".join(f"{kind}={','.join(each)}" for kind, each in paths.items())


def _invalid_tools(notes: Notes) -> str:
    """Return the names, or places, and pointers, which have names of the client's schema."""
    pointers = {name: getattr(error, "pointer", "") for name, error in notes.invalid_tools.items()}
    return ", ".join(
        f"{name}; at={quote(pointer, safe='/~$')}" if pointer else name
        for name, pointer in pointers.items()
    )


def own_value(text: str) -> bytes:
    value = _NOT_PRINTABLE.sub("?", text[: MAX_OWN + 1]).encode()
    return value if len(value) <= MAX_OWN else value[: MAX_OWN - len(CUT)] + CUT
