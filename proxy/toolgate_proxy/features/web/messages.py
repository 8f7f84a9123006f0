"""Web search and web fetch in the Messages API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ...api.messages.content import check_fields
from ...api.messages.feature import GATEWAY_FIELDS, MessagesFeature, MessagesOutput, tool_name
from ...api.shared.history import Content, text_of
from ...api.shared.tools import ReadTool, function_entry
from ...chat.response import ChatResponse
from ...request.gateway_tools import GatewayTool
from ...request_fields import Fields
from ..feature import FeatureInput
from .fetch import FUNCTION as FETCH
from .fetch import FetchedPage, PageFetcher, WebFetch, fetched_text
from .search import (
    FUNCTION,
    Domains,
    FoundPages,
    SearchEngine,
    SearchResults,
    WebPage,
    WebSearch,
    opened,
    read_domains,
    results_text,
)

FIELDS = (*GATEWAY_FIELDS, "allowed_domains", "blocked_domains", "max_uses")
SEARCH_FIELDS = (*FIELDS, "user_location")
FETCH_FIELDS = (*FIELDS, "citations", "max_content_tokens")
SEARCH_RESULT, FETCH_RESULT = "web_search_tool_result", "web_fetch_tool_result"
"""Types of the blocks with results."""
MAX_CITED = 150
"""Most characters of the text of a page that a citation repeats, as in Anthropic's API."""


class MessagesWebOutput(MessagesOutput):
    def __init__(self, feature: WebInMessages, response: ChatResponse) -> None:
        super().__init__(feature, response)
        self._pages = FoundPages()
        self._searches = self._fetches = 0

    def result(self, call_id: str, shown: object) -> dict[str, Any] | None:
        match shown:
            case SearchResults():
                self._pages.add(shown.pages)
                self._searches += 1
                kind, content = SEARCH_RESULT, _results(shown)
            case FetchedPage():
                self._fetches += 1
                kind, content = FETCH_RESULT, _fetched(shown)
            case _:
                return None
        return {"type": kind, "tool_use_id": call_id, "content": content}

    def citations(self, text: str) -> Iterator[dict[str, Any]]:
        """`encrypted_index` is empty: the encrypted results are all that the next turn needs."""
        for citation in self._pages.cited(text):
            yield {
                "type": "web_search_result_location",
                "url": citation.page.url,
                "title": citation.page.title,
                "cited_text": citation.page.text[:MAX_CITED],
                "encrypted_index": "",
            }

    def usage(self) -> Mapping[str, Any]:
        if not self._searches and not self._fetches:
            return {}
        counted = {"web_search_requests": self._searches, "web_fetch_requests": self._fetches}
        return {"server_tool_use": counted}


class WebInMessages(MessagesFeature):
    TYPES = re.compile(r"web_(?:search|fetch)_[0-9]{8}")
    ITEMS = (SEARCH_RESULT, FETCH_RESULT)
    OUTPUT = MessagesWebOutput
    USES: ClassVar = {"server_tool_use": ("web_search", "web_fetch")}

    def __init__(self, feature_input: FeatureInput) -> None:
        super().__init__(feature_input)
        self._searches: dict[str, WebSearch] = {}
        self._fetches: dict[str, WebFetch] = {}

    def take(self, entry: Fields) -> ReadTool | None:
        client = self.input.client
        if entry.values["type"].startswith("web_search"):
            if (engine := client.find(SearchEngine)) is None:
                return None
            name, function = tool_name(entry, SEARCH_FIELDS), FUNCTION
            entry.mapping("user_location")  # the search engine has the operator's
            self._searches[name] = WebSearch(
                engine, client.seal, _allowed(entry), _count(entry, "max_uses")
            )
        else:
            if (fetcher := client.find(PageFetcher)) is None:
                return None
            name, function = tool_name(entry, FETCH_FIELDS), FETCH
            self._fetches[name] = self._fetch(entry, fetcher)
        return ReadTool([function_entry(entry.place, {**function, "name": name})])

    def _fetch(self, entry: Fields, fetcher: PageFetcher) -> WebFetch:
        citations = Fields(entry.mapping("citations") or {}, entry.path("citations"))
        check_fields(citations, ("enabled",))
        return WebFetch(
            fetcher,
            _not_of_the_model(self.input.values),
            self._searches.values(),
            _allowed(entry),
            _count(entry, "max_uses"),
            _count(entry, "max_content_tokens"),
            citations.flag("enabled") is True,
        )

    def runners(self) -> dict[str, GatewayTool]:
        return {**self._searches, **self._fetches}

    def content(self, block: Fields, kind: str) -> Content:
        match block.values.get("content"):
            case dict() as content if kind == SEARCH_RESULT:
                return results_text((), text_of(content.get("error_code")))
            case list() as content if kind == SEARCH_RESULT:
                return self._pages(content, block.place)
            case dict() as content if kind == FETCH_RESULT:
                return _page(content)
        return ""

    def _pages(self, content: list[object], path: str) -> str:
        """Return the pages as text. The texts of pages are encrypted for their owner. Those of
        another service are left out."""
        pages = []
        for each in content:
            if not isinstance(each, dict) or not isinstance(each.get("url"), str):
                continue
            text = opened(self.input.client.seal, each.get("encrypted_content"))
            if text is None:
                self.input.history.note("as_text", path)
            title, age = text_of(each.get("title")), text_of(each.get("page_age"))
            pages.append(WebPage(each["url"], title, text or "", age or None))
        return results_text(pages)


def _count(fields: Fields, name: str) -> int | None:
    most = fields.values.get(name)
    if most is not None and (type(most) is not int or most < 1):
        raise fields.wrong(name, "an integer from 1")
    return most


def _allowed(fields: Fields) -> Domains:
    allowed, blocked = (
        read_domains(fields, name) for name in ("allowed_domains", "blocked_domains")
    )
    return Domains(allowed, blocked)


def _not_of_the_model(values: Mapping[str, Any]) -> list[object]:
    """Return the parts of a conversation, as JSON, that the model has not written: the system
    prompt, messages of others, and results of calls."""
    messages = values.get("messages")
    parts: list[object] = [values.get("system")]
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(message, dict) and message.get("role") == "assistant":
            blocks = content if isinstance(content, list) else ()
            parts += [each for each in blocks if isinstance(each, dict) and _is_result(each)]
        else:
            parts.append(content)
    return parts


def _is_result(block: Mapping[str, Any]) -> bool:
    return str(block.get("type")).endswith("_tool_result")


def _page(content: dict[str, object]) -> str:
    """Return the text of a page, or of an error; "" if it has none, as a PDF."""
    if (code := text_of(content.get("error_code"))) != "":
        return fetched_text(FetchedPage("", problem=code))
    document = content.get("content")
    source = document.get("source") if isinstance(document, dict) else None
    data = source.get("data") if isinstance(source, dict) else None
    if not isinstance(document, dict) or source is None or source.get("type") != "text":
        return ""
    title, text = text_of(document.get("title")), text_of(data)
    return fetched_text(FetchedPage(text_of(content.get("url")), title, text))


def _results(results: SearchResults) -> Any:
    if results.problem is not None:
        return {"type": "web_search_tool_result_error", "error_code": results.problem}
    return [
        {
            "type": "web_search_result",
            "url": page.url,
            "title": page.title,
            "encrypted_content": page.sealed,
            "page_age": page.age,
        }
        for page in results.pages
    ]


def _fetched(page: FetchedPage) -> Any:
    if page.problem is not None:
        return {"type": "web_fetch_tool_result_error", "error_code": page.problem}
    return {
        "type": "web_fetch_result",
        "url": page.url,
        "retrieved_at": page.at,
        "content": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": page.text},
            "title": page.title or None,
            "citations": {"enabled": True} if page.citations else None,
        },
    }
