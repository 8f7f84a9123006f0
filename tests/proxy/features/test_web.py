"""Inside one response: web search with a search tool of LiteLLM, and web fetch of pages that the
operator allows."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import pytest
from anthropic.types import Message

from tests.proxy.server import kit
from tests.proxy.server.kit import REFUSALS, goes_on, same
from tests.support.apis.messages_api import check_message
from tests.support.servers.script import call
from toolgate_proxy.features.web.fetch import MAX_BYTES, PageFetcher
from toolgate_proxy.features.web.search import Domains
from toolgate_proxy.litellm_host.routing.router import router_settings
from toolgate_proxy.public_fetch import PublicFetch
from toolgate_proxy.server import authorization

HI = {"role": "user", "content": "What is new?"}
PAGES = [
    {"title": "Paint", "url": "https://example.com/paint", "content": "It dries."},
    {"title": "Doors", "url": "https://news.example.org/doors", "content": "They open."},
]
CALL = call("web_search", {"query": "news"})
TYPES = {
    "responses": ["web_search_call", "message"],
    "messages": ["server_tool_use", "web_search_tool_result", "text"],
}
APIS = pytest.mark.parametrize("api", [*TYPES])


@pytest.fixture
def engine(engine):
    engine.pages = PAGES
    return engine


def searching(api, **options):
    """The search, and the conversation."""
    tool = {"type": "web_search"} if api == "responses" else {"type": "web_search_20250305",
                                                             "name": "web_search"}  # fmt: skip
    return {"tools": [tool | options], "history": [HI]}


async def ask(gateway, api, *turns, **params):
    return await kit.ask(gateway, api, *turns, **{**searching(api), **params})


@APIS
async def test_the_model_and_the_next_turn_see_what_was_found(gateway, engine, api):
    """The client sees the addresses."""
    reply = await same(gateway, api, CALL, "Paint dries.", **searching(api))
    assert reply.kinds == TYPES[api]
    assert engine.queries == ["news"] * 2
    seen = gateway.backend.messages()[-1]
    assert seen["role"] == "tool"
    for page in PAGES:
        assert all(text in seen["content"] for text in page.values())
    first, *results, _ = reply.parts
    if api == "responses":
        urls = [source["url"] for source in first["action"]["sources"]]
        assert (first["status"], first["action"]["query"]) == ("completed", "news")
    else:
        urls = [page["url"] for page in results[0]["content"]]
        assert first["input"] == {"query": "news"}
        assert reply.body["usage"]["server_tool_use"]["web_search_requests"] == 1
    assert urls == [page["url"] for page in PAGES]
    assert "dries" not in json.dumps(reply.parts[:-1])
    await goes_on(gateway, reply, [HI], tools=searching(api)["tools"])


@APIS
async def test_a_text_cites_the_pages_whose_addresses_it_has(gateway, engine, api):
    first, second = (page["url"] for page in PAGES)
    engine.pages = [*PAGES, {**PAGES[0], "title": "Wall", "url": f"{first}/wall"}]
    text = f"Ünlike {first}/wall, {first}s: ({second}) and {first}."
    reply = await same(gateway, api, CALL, text, **searching(api))
    said = reply.parts[-1]
    if api == "responses":
        shown = said["content"][0]["annotations"]
        assert {each["type"] for each in shown} == {"url_citation"}
        assert [text[each["start_index"] : each["end_index"]] for each in shown] == [
            each["url"] for each in shown
        ]
        events = (await ask(gateway, api, CALL, text, stream=True)).response.events
        steps = [e["type"].rpartition(".")[2] for e in events if "web_search_call" in e["type"]]
        assert steps == ["in_progress", "searching", "completed"]
        added = [e for e in events if e["type"].endswith("annotation.added")]
        assert [each["annotation"] for each in added] == shown
        assert [each["annotation_index"] for each in added] == [0, 1, 2]
        [begun] = [e["part"] for e in events if e["type"].endswith("content_part.added")]
        [done] = [e["part"] for e in events if e["type"].endswith("content_part.done")]
        assert (begun["annotations"], done["annotations"]) == ([], shown)
    else:
        shown = said["citations"]
        assert {each["type"] for each in shown} == {"web_search_result_location"}
        assert shown[1]["cited_text"] == "They open."
        check_message(reply.body)  # also by the models of the API that is no beta
    assert [(each["url"], each["title"]) for each in shown] == [
        (f"{first}/wall", "Wall"),
        (second, "Doors"),
        (first, "Paint"),
    ]
    await goes_on(gateway, reply, [HI], tools=searching(api)["tools"])


@pytest.mark.usefixtures("engine")
@APIS
async def test_results_of_another_service_are_titles_and_addresses(gateway, api):
    url = "https://a.example"
    action = {"type": "search", "query": "q", "sources": [{"type": "url", "url": url}]}
    item = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": action}
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    page = {"type": "web_search_result", "url": url, "title": "A", "page_age": None}
    found = [page | {"encrypted_content": "WA=="}]
    result = {"type": "web_search_tool_result", "tool_use_id": use["id"], "content": found}
    turn = item if api == "responses" else {"role": "assistant", "content": [use, result]}
    reply = await ask(gateway, api, "That is all.", history=[HI, turn, HI])
    assert reply.text == "That is all."
    assert url in gateway.backend.messages()[-2]["content"]
    assert "as_text" in reply.own["x-toolgate-history"]


async def test_pages_of_other_domains_are_left_out(gateway, engine):
    for options, found in (
        ({"allowed_domains": ["example.org"]}, PAGES[1:]),
        ({"allowed_domains": ["example.com/paint"]}, PAGES[:1]),
        ({"blocked_domains": ["example.org"]}, PAGES[:1]),
        ({"allowed_domains": ["ample.org"]}, []),
    ):
        given = searching("messages", **options)
        reply = await ask(gateway, "messages", CALL, "Done.", **given)
        assert [each["url"] for each in reply.parts[1]["content"]] == [e["url"] for e in found]
        seen = gateway.backend.messages()[-1]["content"]
        assert [page["url"] in seen for page in PAGES] == [page in found for page in PAGES]


async def test_searches_beyond_the_limit_do_not_run(gateway, engine):
    reply = await ask(gateway, "messages", CALL, CALL, "Done.", **searching("messages", max_uses=1))
    first, second = (each["content"] for each in reply.parts if "tool_result" in each["type"])
    assert isinstance(first, list)
    refused = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    assert second == refused
    assert len(engine.queries) == 1


@APIS
async def test_a_search_that_fails_is_a_result_that_says_so(gateway, engine, api):
    engine.status = 500
    reply = await ask(gateway, api, CALL, "I could not search.")
    assert reply.text == "I could not search."
    assert "failed" in gateway.backend.messages()[-1]["content"]
    if api == "messages":
        assert reply.parts[1]["content"]["error_code"] == "unavailable"


@APIS
async def test_without_a_search_tool_the_search_is_left_out(gateway, api):
    router_settings().search_tools.clear()
    reply = await ask(gateway, api, "I know nothing.")
    assert reply.text == "I know nothing."
    assert "web_search" in reply.own["x-toolgate-omitted-tools"]
    assert gateway.backend.listed_tools() == []


URL = "https://docs.example.com/paint"
MOVED, NEW = "http://docs.example.com/moved", "https://www.example.com/new"
ASKED = f"What is on {URL} and {MOVED} and https://other.example/?"
PAGE = "<title>Paint</title><body><h1>Paint</h1><p>It dries in <b>an hour</b>.</p></body>"
TEXT = "Paint\nIt dries in an hour."
PUBLIC = "93.184.215.14"
WebPage = Callable[[], httpx.Response]
"""Makes the answer, which can be read once."""


def page(text=PAGE, kind="text/html", status=200, **headers):
    data = text if isinstance(text, bytes) else text.encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {"content-type": kind, **named}
    return lambda: httpx.Response(status, headers=sent, stream=httpx.ByteStream(data))


def moved(to):
    return page("", status=302, location=to)


@dataclass
class Web:
    """The pages by their addresses, and the requests for them."""

    pages: dict[str, WebPage] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    """The IP addresses of hosts, if not a public one."""
    requests: list[str] = field(default_factory=list)

    async def resolve(self, host, port):
        return [self.addresses.get(host, PUBLIC)]

    def answer(self, request):
        host = request.headers["host"]
        assert request.url.host == self.addresses.get(host, PUBLIC)
        url = str(request.url.copy_with(host=host))
        self.requests.append(url)
        return self.pages.get(url, page("", status=404))()


@pytest.fixture
def web(gateway, monkeypatch):
    """The operator allows `example.com` and what is below it."""
    del gateway
    made = Web({URL: page()}, {"inner.example.com": "169.254.169.254"})
    public = PublicFetch(made.resolve, httpx.MockTransport(made.answer))
    fetcher = PageFetcher(Domains(("example.com",)), public)
    monkeypatch.setattr(authorization, "provisions", lambda: {PageFetcher: fetcher})
    return made


def get(url=URL):
    return call("web_fetch", {"url": url})


def fetching(**options):
    return {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch", **options}]}


async def fetch(gateway, *turns, options=None, **more):
    """The results of the fetches."""
    given = {"said": ASKED, "max_tokens": 3_000, **fetching(**(options or {})), **more}
    reply = await kit.ask(gateway, "messages", *turns, **given)
    return [each["content"] for each in reply.parts if each["type"] == "web_fetch_tool_result"]


async def test_the_model_sees_the_text_of_the_page(gateway, web):
    given = {"said": ASKED, **fetching(citations={"enabled": True})}
    reply = await same(gateway, "messages", get(), "In an hour.", **given)
    used, result, _ = reply.parts
    named = used["type"], used["name"], used["input"]
    assert named == ("server_tool_use", "web_fetch", {"url": URL})
    shown = result["content"]
    assert result["tool_use_id"] == used["id"]
    assert (shown["type"], shown["url"]) == ("web_fetch_result", URL)
    document = shown["content"]
    assert document["source"] == {"type": "text", "media_type": "text/plain", "data": TEXT}
    assert (document["title"], document["citations"]) == ("Paint", {"enabled": True})
    assert reply.text == "In an hour."
    assert gateway.backend.messages()[-1]["content"] == f"Paint\n{URL}\n{TEXT}"
    counted = {"web_search_requests": 0, "web_fetch_requests": 1}
    assert reply.body["usage"]["server_tool_use"] == counted
    assert web.requests == [URL] * 2
    check_message(reply.body)
    typed = Message.model_validate(reply.body).content
    names = ["ServerToolUseBlock", "WebFetchToolResultBlock", "TextBlock"]
    assert [type(block).__name__ for block in typed] == names


@pytest.mark.usefixtures("web")
@pytest.mark.parametrize("url", [URL, "https://docs.example.com/lost"])
async def test_the_next_turn_continues_the_same_prompt(gateway, url):
    said = [{"role": "user", "content": f"{ASKED} {url}"}]
    reply = await kit.ask(gateway, "messages", get(url), "Done.", history=said, **fetching())
    await goes_on(gateway, reply, said, **fetching())


async def test_what_is_not_allowed_is_not_reached_by_a_redirect(gateway, web):
    for to, code in REFUSALS["redirects"]:
        web.pages |= {MOVED: moved(to), NEW: page()}
        [shown] = await fetch(gateway, get(MOVED), "Done.")
        assert shown == {"type": "web_fetch_tool_result_error", "error_code": code}
        assert {*web.requests} == {MOVED}
        assert "did not succeed" in gateway.backend.messages()[-1]["content"]
    web.pages[MOVED] = moved(NEW)
    [shown] = await fetch(gateway, get(MOVED), "Done.")
    assert shown["url"] == NEW


LONG = f"https://docs.example.com/{'a' * 3000}"


async def test_other_addresses_are_not_fetched(gateway, web):
    """Such as one that only the model wrote."""
    asked = {"role": "user", "content": f"{ASKED} http://inner.example.com/"}
    said = [
        {"role": "assistant", "content": f"See {URL}?q=secret."},
        {"role": "user", "content": "Go on."},
    ]
    for url, code in [(LONG, "url_too_long"), *REFUSALS["addresses"]]:
        [shown] = await fetch(gateway, get(url), "Done.", history=[asked, *said])
        assert shown["error_code"] == code, url
        assert web.requests == []


ZIPPED = page(gzip.compress(b"a" * 9_000_000), content_encoding="gzip")
UNREADABLE = [
    (page(status=500), "url_not_accessible"),
    (page(b"%PDF", "application/pdf"), "unsupported_content_type"),
    (ZIPPED, "unsupported_content_type"),
    (page(b"a" * (MAX_BYTES + 1)), "content_too_large"),
]


async def test_pages_that_can_not_be_read(gateway, web):
    for answer, code in UNREADABLE:
        web.pages[URL] = answer
        [shown] = await fetch(gateway, get(), "Done.")
        assert shown["error_code"] == code


@pytest.mark.usefixtures("web")
async def test_the_request_may_allow_less(gateway):
    for options, found in (
        ({"allowed_domains": ["docs.example.com"]}, "web_fetch_result"),
        ({"allowed_domains": ["www.example.com"]}, "url_not_allowed"),
        ({"blocked_domains": ["example.com/wall"]}, "web_fetch_result"),
        ({"blocked_domains": ["docs.example.com/paint"]}, "url_not_allowed"),
    ):
        [shown] = await fetch(gateway, get(), "Done.", options=options)
        assert shown.get("error_code", shown["type"]) == found, options


async def test_fetches_are_limited_and_know_the_addresses_of_earlier_pages(gateway, web):
    options = {"max_uses": 1, "max_content_tokens": 2}
    first, second = await fetch(gateway, get(), get(), "Done.", options=options)
    assert first["content"]["source"]["data"] == TEXT[:8]
    assert second["error_code"] == "max_uses_exceeded"
    assert web.requests == [URL]
    following = "https://docs.example.com/next"
    web.pages |= {URL: page(f"See {following}.", "text/plain"), following: page()}
    shown = await fetch(gateway, get(), get(following), "Done.")
    assert [each["type"] for each in shown] == ["web_fetch_result"] * 2


@pytest.mark.parametrize("allowed", [(), ("example.com",), ("*",)])
async def test_without_the_setting_the_fetch_is_left_out(gateway, allowed):
    gateway.configure(web_fetch=allowed)
    reply = await kit.ask(gateway, "messages", "Hello.", **fetching())
    assert reply.text == "Hello."
    assert ("x-toolgate-omitted-tools" in reply.own) is not bool(allowed)
    fetcher = authorization.provisions().get(PageFetcher)
    for url, named in (("https://example.com/", True), ("https://other.example/", False)):
        assert (fetcher is not None and fetcher.domains.allow(url)) is (
            bool(allowed) and (named or "*" in allowed)
        )
