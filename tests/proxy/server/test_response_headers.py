"""Values of response headers, and decisions of the gate around the own routes."""

import asyncio
from types import SimpleNamespace

import pytest

from toolgate_proxy.context import RequestContext, context_of
from toolgate_proxy.server import logs, request_scope
from toolgate_proxy.server.request_scope import (
    CUT,
    MAX_OTHER,
    MAX_OWN,
    RequestScope,
    own_headers,
    own_value,
    response_headers,
)

DONE = b"data: [DONE]\n\n"


def test_values_are_printable_and_bounded():
    for text, value in (
        ("full", b"full"),
        ("a\r\nset-cookie: b=c", b"a??set-cookie: b=c"),
        ("a\x00\x7f\tb", b"a???b"),
        ("modèle 模型", b"mod?le ??"),
        ("x" * MAX_OWN, b"x" * MAX_OWN),
        ("x" * 300_000, b"x" * (MAX_OWN - len(CUT)) + CUT),
        ("模" * 300_000, b"?" * (MAX_OWN - len(CUT)) + CUT),
    ):
        assert own_value(text) == value
    # Names from a request can't end the headers.
    context = RequestContext.with_request_id("req-1")
    context.notes.ignored_parameters = ["a\r\n\r\nb", "c" * 300_000]
    context.notes.omitted_tools = ["web_search"]
    sent = dict(response_headers([], own_headers(context)))
    ignored = sent[b"x-toolgate-ignored-parameters"]
    assert ignored.startswith(b"a????b,ccc")
    assert len(ignored) == MAX_OWN
    assert sent[b"x-toolgate-omitted-tools"] == b"web_search"
    given = [
        (b"x-litellm-model-group", b"a\r\nb: c"),
        (b"set-cookie", b"a=" + b"x" * 4_000),
        (b"llm_provider-large", b"x" * (MAX_OTHER + 1)),
        (b"x-name", "é".encode("latin-1")),
    ]
    shown = [(b"x-litellm-model-group", b"a??b: c"), given[1], given[3]]
    assert response_headers(given, {}) == shown


def test_scripts_of_allowed_origins_may_read_all_headers():
    given = [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", b"x-other")]
    names = b"access-control-allow-origin, access-control-expose-headers, x-request-id"
    exposed = (b"access-control-expose-headers", names)
    sent = response_headers(given, {"x-request-id": "1"})
    assert sent == [given[0], (b"x-request-id", b"1"), exposed]
    assert response_headers(given[1:], {}) == given[1:]


@pytest.mark.parametrize(
    ("path", "short"),
    [
        *[(f"{path}/", path) for path in ("/v1/messages", "/openai/v1/responses", "/v1/models")],
        ("/openai/deployments/a/b/chat/completions//", "/openai/deployments/a/b/chat/completions"),
        *[(path, path) for path in ("/", "/key/info/", "/v1/chat/completions", "/toolgate/page/")],
    ],
)
def test_a_slash_at_the_end_of_an_apis_path_is_ignored(path, short):
    assert request_scope.without_slash(path) == short


def test_stream_end_is_detected_only_in_the_last_line():
    for body, more, last in (
        (DONE, True, True),
        (b'data: {"choices":[]}\n\n' + DONE, True, True),
        (b'data: {"choices":[]}\n\n', True, False),
        (b'data: {"choices":[{"delta":{"content":"then data: [DONE] ends it"}}]}\n\n', True, False),
        (b'data: {"prompt_text":"\\ndata: [DONE]"}\n\n', True, False),
        (b"", False, True),
    ):
        message = {"type": "http.response.body", "body": body, "more_body": more}
        assert request_scope._is_last(message) is last, body


def test_litellms_headers_stay_only_if_they_attribute_a_request():
    stay = "customer-id end-user-id session-id spend-logs-metadata tags trace-id api-key"
    go = "timeout num-retries model disable-callbacks user-id team-id agent-id call-id tags-more"
    headers = [(b"x-litellm-" + name.encode(), b"1") for name in f"{stay} {go}".split()]
    assert request_scope.without_control_headers(headers) == headers[: len(stay.split())]


@pytest.fixture
def lines(monkeypatch):
    """The contexts whose requests were logged."""
    written = []
    settings = SimpleNamespace(log_format="text", metrics_token=None)
    here = SimpleNamespace(settings=settings, key_sync=None)
    monkeypatch.setattr(request_scope, "gateway", lambda: here)
    monkeypatch.setattr(logs, "write", lambda context, **_: written.append(context))
    return written


async def through(handle, *headers):
    sent = []

    async def app(scope, receive, send):
        await handle(context_of(scope), send)

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": headers}
    await RequestScope(app)(scope, receive, send)
    return sent


async def start(send, *headers):
    await send({"type": "http.response.start", "status": 200, "headers": list(headers)})


async def body(send, content, *, more=True):
    await send({"type": "http.response.body", "body": content, "more_body": more})


async def test_response_has_the_headers_of_the_context(lines):
    """And the costs, unless they are zero."""
    costs = ((b"", b"0.0"), (b"-input", b"1e-05"), (b"-output", b"0"), (b"-original", b"0.02"))

    async def handle(context, send):
        context.notes.note_enforcement(True, {})
        named = [(b"x-litellm-response-cost" + name, value) for name, value in costs]
        hidden = (b"x-litellm-model-api-base", b"http://secret"), (b"x-litellm-key-spend", b"0.0")
        await start(send, *named, *hidden)
        await body(send, b"{}", more=False)

    sent = await through(handle, (b"x-request-id", b"mine"))
    headers = dict(sent[0]["headers"])
    assert headers[b"x-request-id"] == b"mine"
    assert headers[b"x-toolgate-enforced"] == b"full"
    names = [name for name, _ in sent[0]["headers"] if b"litellm" in name]
    assert names == [b"x-litellm-response-cost-input", b"x-litellm-response-cost-original"]
    [context] = lines
    outcome = context.outcome
    assert (outcome.status, outcome.failed, outcome.sent_whole) == (200, False, True)


@pytest.mark.parametrize("ended", [True, False])
async def test_reservation_is_settled_before_the_last_bytes_are_sent(lines, ended):
    """A next request may arrive as soon as the client has the whole response; a context is
    complete when its tokens are."""
    settled = []

    async def handle(context, send):
        async def settle():
            settled.append("settled")

        context.meter.lease = SimpleNamespace(settle=settle)
        await start(send)
        await body(send, b"data: 1\n\n")
        assert settled == []
        context.meter.complete = not ended
        await body(send, DONE if ended else b"data: 2\n\n")
        assert settled == ["settled"]
        await body(send, b"", more=False)

    await through(handle)
    assert settled == ["settled"]
    assert len(lines) == 1


async def test_aborted_request_is_settled_and_logged(lines):
    done = asyncio.Event()

    async def handle(context, send):
        async def settle():
            done.set()

        context.meter.lease = SimpleNamespace(settle=settle)
        await start(send)
        raise ConnectionError("the client has gone")

    with pytest.raises(ConnectionError):
        await through(handle)
    async with asyncio.timeout(5):
        await done.wait()
    [context] = lines
    assert not context.outcome.sent_whole


async def test_two_keys_and_a_long_attribution_are_refused_before_any_authentication(lines):
    """LiteLLM's database and another custom_auth would take one of two keys."""

    async def handle(context, send):
        await start(send)

    sent = await through(handle, (b"authorization", b"Bearer a"), (b"authorization", b"Bearer b"))
    assert sent[0]["status"] == 401
    assert b"invalid_api_key" in sent[1]["body"]
    [ended] = [each.outcome for each in lines]
    assert (ended.status, ended.code) == (401, "invalid_api_key")
    for size, status in ((4_096, 200), (4_097, 400)):
        assert (await through(handle, (b"x-litellm-tags", b"," * size)))[0]["status"] == status
