"""Web fetches that the gateway runs inside a message, of pages that the operator allows."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from anthropic.types import Message

from tests.support.apis.messages_api import check_event, check_message
from tests.support.litellm.own_route import PATHS, Gateway, Response, body_of
from tests.support.servers.script import Script, call
from toolgate_proxy.api.shared.web_fetch import MAX_BYTES, PageFetcher
from toolgate_proxy.api.shared.web_search import Domains
from toolgate_proxy.fetching.public_fetch import PublicFetch
from toolgate_proxy.server import client
from toolgate_proxy.server.response_headers import own_headers

URL = "https://docs.example.com/paint"
ASKED = f"What is on {URL} and http://docs.example.com/moved and https://other.example/?"
PAGE = "<title>Paint</title><body><h1>Paint</h1><p>It dries in <b>an hour</b>.</p></body>"
TEXT = "Paint\nIt dries in an hour."
PUBLIC = "93.184.215.14"
Json = dict[str, Any]
Page = Callable[[], httpx.Response]
"""Makes the answer, which can be read once."""


def page(
    text: str | bytes = PAGE, kind: str = "text/html", status: int = 200, **headers: str
) -> Page:
    data = text if isinstance(text, bytes) else text.encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {"content-type": kind, **named}
    return lambda: httpx.Response(status, headers=sent, stream=httpx.ByteStream(data))


def moved(to: str) -> Page:
    return page("", status=302, location=to)


@dataclass
class Web:
    """The pages by their addresses, and the requests for them."""

    pages: dict[str, Page] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    """The IP addresses of hosts, if not a public one."""
    requests: list[str] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> list[str]:
        return [self.addresses.get(host, PUBLIC)]

    def answer(self, request: httpx.Request) -> httpx.Response:
        host = request.headers["host"]
        assert request.url.host == self.addresses.get(host, PUBLIC)
        url = str(request.url.copy_with(host=host))
        self.requests.append(url)
        return self.pages.get(url, page("", status=404))()


@pytest.fixture
def web(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Web:
    """The operator allows `example.com` and what is below it."""
    del gateway
    made = Web({URL: page()})
    public = PublicFetch(made.resolve, httpx.MockTransport(made.answer))
    fetcher = PageFetcher(Domains(("example.com",)), public)
    monkeypatch.setattr(client, "page_fetcher", lambda: fetcher)
    return made


def fetch(url: str = URL) -> str:
    return call("web_fetch", {"url": url})


async def ask(gateway: Gateway, *turns: str, options: Json | None = None, **more: Any) -> Response:
    gateway.backend.turns = [Script((text,)) for text in turns]
    tool = {"type": "web_fetch_20250910", "name": "web_fetch", **(options or {})}
    body = body_of("messages", ASKED, tools=[tool], **{"max_tokens": 5_000, **more})
    return await gateway.ask(body, path=PATHS["messages"])


def results(response: Response) -> list[Json]:
    assert response.status == 200, response.bodies
    blocks = response.json["content"]
    return [each["content"] for each in blocks if each["type"] == "web_fetch_tool_result"]


async def test_the_model_sees_the_text_of_the_page(gateway: Gateway, web: Web) -> None:
    options = {"citations": {"enabled": True}}
    response = await ask(gateway, fetch(), "In an hour.", options=options)
    used, result, said = response.json["content"]
    assert (used["type"], used["name"], used["input"]) == (
        "server_tool_use",
        "web_fetch",
        {"url": URL},
    )
    assert result["tool_use_id"] == used["id"]
    [shown] = results(response)
    assert (shown["type"], shown["url"]) == ("web_fetch_result", URL)
    document = shown["content"]
    assert document["source"] == {"type": "text", "media_type": "text/plain", "data": TEXT}
    assert (document["title"], document["citations"]) == ("Paint", {"enabled": True})
    assert said["text"] == "In an hour."
    assert gateway.backend.messages()[-1]["content"] == f"Paint\n{URL}\n{TEXT}"
    assert response.json["usage"]["server_tool_use"] == {
        "web_search_requests": 0,
        "web_fetch_requests": 1,
    }
    assert web.requests == [URL]
    check_message(response.json)
    typed = Message.model_validate(response.json)
    assert [type(block).__name__ for block in typed.content] == [
        "ServerToolUseBlock",
        "WebFetchToolResultBlock",
        "TextBlock",
    ]


@pytest.mark.usefixtures("web")
async def test_a_stream_has_the_same_blocks(gateway: Gateway) -> None:
    whole = (await ask(gateway, fetch(), "In an hour.")).json["content"]
    response = await ask(gateway, fetch(), "In an hour.", stream=True)
    starts = [e["content_block"] for e in response.events if e["type"] == "content_block_start"]
    assert [each["type"] for each in starts] == [each["type"] for each in whole]
    assert starts[1]["content"]["content"] == whole[1]["content"]["content"]
    for event in response.events:
        check_event(event)
    assert response.events[-2]["usage"]["server_tool_use"]["web_fetch_requests"] == 1


@pytest.mark.usefixtures("web")
@pytest.mark.parametrize("url", [URL, "https://docs.example.com/lost"])
async def test_the_next_turn_continues_the_same_prompt(gateway: Gateway, url: str) -> None:
    said = [{"role": "user", "content": f"{ASKED} {url}"}]
    content = (await ask(gateway, fetch(url), "Done.", messages=said)).json["content"]
    seen = gateway.backend.messages()
    more = [{"role": "assistant", "content": content}, {"role": "user", "content": "And?"}]
    response = await ask(gateway, "That is all.", messages=[*said, *more])
    assert response.status == 200, response.bodies
    assert gateway.backend.messages()[: len(seen)] == seen
    assert "x-toolgate-history" not in own_headers(response.context)


async def test_a_page_that_moved_is_fetched_where_it_is(gateway: Gateway, web: Web) -> None:
    web.pages["http://docs.example.com/moved"] = moved("https://www.example.com/new")
    web.pages["https://www.example.com/new"] = page()
    response = await ask(gateway, fetch("http://docs.example.com/moved"), "Done.")
    assert results(response)[0]["url"] == "https://www.example.com/new"


@pytest.mark.parametrize(
    ("to", "code"),
    [
        ("https://other.example/", "url_not_allowed"),
        ("https://example.com.evil.example/", "url_not_allowed"),
        ("http://docs.example.com:8080/", "url_not_allowed"),
        ("http://inner.example.com/", "url_not_accessible"),
        ("http://127.0.0.1/", "url_not_allowed"),
        ("file:///etc/passwd", "invalid_tool_input"),
        ("http://docs.example.com/moved", "url_not_accessible"),
    ],
)
async def test_what_is_not_allowed_is_not_reached_by_a_redirect(
    gateway: Gateway, web: Web, to: str, code: str
) -> None:
    web.addresses["inner.example.com"] = "10.0.0.7"
    web.pages["http://docs.example.com/moved"] = moved(to)
    response = await ask(gateway, fetch("http://docs.example.com/moved"), "Done.")
    assert results(response)[0] == {"type": "web_fetch_tool_result_error", "error_code": code}
    assert {*web.requests} == {"http://docs.example.com/moved"}
    assert "did not succeed" in gateway.backend.messages()[-1]["content"]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://other.example/", "url_not_allowed"),
        ("https://docs.example.com/?q=secret", "url_not_in_prior_context"),
        ("http://inner.example.com/", "url_not_accessible"),
        ("https://user:name@docs.example.com/", "invalid_tool_input"),
        ("ftp://docs.example.com/", "invalid_tool_input"),
        ("paint", "invalid_tool_input"),
        (f"https://docs.example.com/{'a' * 3000}", "url_too_long"),
        ("https://docs.example.com\\@other.example/", "invalid_tool_input"),
    ],
)
async def test_other_addresses_are_not_fetched(
    gateway: Gateway, web: Web, url: str, code: str
) -> None:
    web.addresses["inner.example.com"] = "169.254.169.254"
    said = [{"role": "user", "content": f"{ASKED} http://inner.example.com/"}]
    response = await ask(gateway, fetch(json.dumps(url)[1:-1]), "Done.", messages=said)
    assert results(response)[0]["error_code"] == code
    assert web.requests == []


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (page(status=500), "url_not_accessible"),
        (page(b"%PDF", "application/pdf"), "unsupported_content_type"),
        (
            page(gzip.compress(b"a" * 9_000_000), content_encoding="gzip"),
            "unsupported_content_type",
        ),
        (page(b"a" * (MAX_BYTES + 1)), "content_too_large"),
    ],
)
async def test_pages_that_can_not_be_read(
    gateway: Gateway, web: Web, answer: Page, code: str
) -> None:
    web.pages[URL] = answer
    response = await ask(gateway, fetch(), "Done.")
    assert results(response)[0]["error_code"] == code


@pytest.mark.usefixtures("web")
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"allowed_domains": ["docs.example.com"]}, "web_fetch_result"),
        ({"allowed_domains": ["www.example.com"]}, "url_not_allowed"),
        ({"blocked_domains": ["example.com/wall"]}, "web_fetch_result"),
        ({"blocked_domains": ["docs.example.com/paint"]}, "url_not_allowed"),
    ],
)
async def test_the_request_may_allow_less(gateway: Gateway, options: Json, found: str) -> None:
    [shown] = results(await ask(gateway, fetch(), "Done.", options=options))
    assert shown.get("error_code", shown["type"]) == found


async def test_fetches_and_texts_beyond_the_limits(gateway: Gateway, web: Web) -> None:
    options = {"max_uses": 1, "max_content_tokens": 2}
    response = await ask(gateway, fetch(), fetch(), "Done.", options=options)
    first, second = results(response)
    assert first["content"]["source"]["data"] == TEXT[:8]
    assert second["error_code"] == "max_uses_exceeded"
    assert web.requests == [URL]


async def test_an_address_that_the_model_wrote_is_not_known(gateway: Gateway, web: Web) -> None:
    own = f"{URL}?q=secret"
    said = [{"role": "assistant", "content": f"See {own}."}, {"role": "user", "content": "Go on."}]
    history = [{"role": "user", "content": ASKED}, *said]
    response = await ask(gateway, fetch(own), "Done.", messages=history)
    assert results(response)[0]["error_code"] == "url_not_in_prior_context"
    assert web.requests == []


async def test_an_address_of_an_earlier_page_is_known(gateway: Gateway, web: Web) -> None:
    web.pages[URL] = page("See https://docs.example.com/next.", "text/plain")
    web.pages["https://docs.example.com/next"] = page()
    turns = fetch(), fetch("https://docs.example.com/next"), "Done."
    response = await ask(gateway, *turns)
    assert [each["type"] for each in results(response)] == ["web_fetch_result"] * 2


@pytest.mark.parametrize("allowed", [(), ("example.com",), ("*",)])
async def test_without_the_setting_the_fetch_is_left_out(
    gateway: Gateway, allowed: tuple[str, ...]
) -> None:
    gateway.configure(web_fetch=allowed)
    response = await ask(gateway, "Hello.")
    assert response.status == 200, response.bodies
    omitted = own_headers(response.context).get("x-toolgate-omitted-tools")
    assert (omitted is None) is bool(allowed)
    fetcher = client.page_fetcher()
    for url, named in (("https://example.com/", True), ("https://other.example/", False)):
        assert (fetcher is not None and fetcher.domains.allow(url)) is (
            bool(allowed) and (named or "*" in allowed)
        )


@pytest.mark.usefixtures("web")
@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"max_uses": 0}, "tools[0].max_uses"),
        ({"max_content_tokens": "9"}, "tools[0].max_content_tokens"),
        ({"blocked_domains": [1]}, "tools[0].blocked_domains[0]"),
        ({"citations": {"enabled": 3}}, "tools[0].citations.enabled"),
        ({"depth": 3}, "tools[0].depth"),
    ],
)
async def test_wrong_options_are_refused(gateway: Gateway, options: Json, param: str) -> None:
    response = await ask(gateway, options=options)
    assert response.status == 400
    assert response.json["error"]["param"] == param
