"""Fetches of web pages that the gateway runs: the tool that the model is offered, and the result of
a call.

A page must be public, of a domain that the operator and the request allow, and its address must be
in what the model has not written of the conversation: it cannot put what it knows into an address.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from ...api.shared.tools import closed, typed
from ...api.surface import Provision
from ...public_fetch import Answer, NotFetched, PublicFetch, checked
from ...request.gateway_tools import CallResult, GatewayResult, ToolLabel
from ...settings import Settings
from .search import Domains, WebSearch

HTML = ("text/html", "application/xhtml+xml")
PLAIN = re.compile(r"text/[\w.+-]+|application/(?:[\w.-]+\+)?(?:json|xml|yaml)")
"""Types of pages that are shown as they are."""
CHARSETS = frozenset(
    {"utf-8", "us-ascii", "iso-8859-1", "iso-8859-15", "windows-1252", "utf-16", "shift_jis"}
    | {"euc-jp", "euc-kr", "gb2312", "gbk", "gb18030", "big5", "windows-1251", "koi8-r"}
)
"""Others are read as UTF-8: some of Python's codecs take time in proportion to the square."""
TAG = re.compile(r"(<[^<>]*>)")
ELEMENT = re.compile(r"</?([A-Za-z][A-Za-z0-9]*)")
DECLARATION = re.compile(r"<[!?][^<>]*>")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "head"})
TITLE = "title"
INLINE = frozenset(
    {"a", "abbr", "b", "bdi", "bdo", "cite", "code", "em", "font", "i", "kbd", "label", "mark"}
    | {"q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var", "wbr"}
)
"""Elements that begin no line."""


@dataclass(frozen=True)
class PageText:
    title: str
    text: str


def page_text(data: bytes, content_type: str) -> PageText | None:
    """Return None for a type of content that is no text."""
    header = Message()
    header["content-type"] = content_type or "text/plain"
    kind, charset = header.get_content_type(), str(header.get_param("charset", "utf-8")).lower()
    if kind not in HTML and not PLAIN.fullmatch(kind):
        return None
    text = data.decode(charset if charset in CHARSETS else "utf-8", "replace")
    if kind not in HTML:
        return PageText("", text.strip())
    title: list[str] = []
    lines = "".join(_shown(COMMENT.sub("", text), title)).split("\n")
    texts = (" ".join(html.unescape(line).split()) for line in lines)
    joined = "\n".join(line for line in texts if line)
    return PageText(" ".join(html.unescape("".join(title)).split()), joined)


def _shown(text: str, title: list[str]) -> Iterator[str]:
    """Yield the texts between the tags, and line ends. `title` gets those of the title."""
    hidden, in_title = "", False
    """`hidden`: the element whose end is awaited."""
    for part in TAG.split(text):
        tag = ELEMENT.match(part) if part.startswith("<") and part.endswith(">") else None
        if tag is None and DECLARATION.match(part) is not None:
            continue
        if tag is None:
            if in_title:
                title.append(part)
            elif not hidden:
                yield part
            continue
        name, ends = tag[1].lower(), part.startswith("</")
        if name == TITLE and hidden in ("", "head"):
            in_title = not ends and not title
        elif hidden:
            hidden = "" if ends and name == hidden else hidden
        elif name in UNSEEN and not ends and not part.endswith("/>"):
            hidden = name
        elif name not in INLINE:
            yield "\n"


NAME = "web_fetch"
"""The name of the function that the model sees."""
URL = "url"
MAX_URL = 2_000
"""Most characters of an address."""
MAX_BYTES = 2_000_000
"""Of a page as it is sent."""
MAX_TEXT = 100_000
"""Most characters of the text of a page."""
TOKEN = 4
"""Characters of a token, about."""
SECONDS = 20.0
"""Longest time of a call."""
MAX_REDIRECTS = 4
REDIRECTS = (301, 302, 303, 307, 308)
ACCEPT = "text/html, text/*;q=0.9, application/json;q=0.8"
Problem = Literal[
    "max_uses_exceeded",
    "invalid_tool_input",
    "url_too_long",
    "url_not_allowed",
    "url_not_in_prior_context",
    "url_not_accessible",
    "unsupported_content_type",
    "content_too_large",
]
ERRORS: dict[Problem, str] = {
    "max_uses_exceeded": "the request allows no more fetches",
    "invalid_tool_input": "this is not an http or https address",
    "url_too_long": "the address is too long",
    "url_not_allowed": "pages of this domain may not be fetched",
    "url_not_in_prior_context": "the address is not in the conversation so far",
    "url_not_accessible": "the page could not be fetched",
    "unsupported_content_type": "the page is not a text",
    "content_too_large": "the page is too large",
}
"""Why a page was not fetched, for the model, by the code that Anthropic's API has for it."""
FUNCTION: dict[str, Any] = {
    "name": NAME,
    "description": "Fetch a web page whose address is in the conversation. Returns its text.",
    "parameters": closed({URL: typed("string", "The address of the page.")}),
}


class FetchFailed(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True)
class PageFetcher(Provision):
    """Fetches the pages that the operator allows."""

    domains: Domains
    public: PublicFetch = field(default_factory=PublicFetch)

    async def page(self, url: str, allowed: Domains) -> tuple[str, PageText]:
        """Return the last address and the text of a page. `allowed`: by the request. Raise
        FetchFailed."""
        for _ in range(MAX_REDIRECTS + 1):
            address = _address(url)
            for domains in (self.domains, allowed):
                if not domains.allow(str(address)):
                    raise FetchFailed("url_not_allowed")
            answer = await self._answer(str(address))
            location = answer.headers.get("location")
            if answer.status not in REDIRECTS or location is None:
                return str(address), await _text(answer)
            try:
                url = str(address.join(location))
            except (httpx.InvalidURL, ValueError) as error:
                raise FetchFailed("url_not_accessible") from error
        raise FetchFailed("url_not_accessible")

    async def _answer(self, url: str) -> Answer:
        try:
            return await self.public.get(url, accept=ACCEPT, max_bytes=MAX_BYTES)
        except NotFetched as error:
            large = error.problem == "too_large"
            raise FetchFailed("content_too_large" if large else "url_not_accessible") from error


@dataclass(frozen=True)
class FetchedPage:
    """What a fetch shows the client."""

    url: str
    title: str = ""
    text: str = ""
    at: str = ""
    """When it was fetched, in ISO 8601."""
    problem: str | None = None
    """A code; in the history, any that a service sent."""
    citations: bool = False
    """Whether the request asks for citations of the page."""


@dataclass
class WebFetch:
    """The web fetch of one request."""

    fetcher: PageFetcher
    given: object
    """JSON of which the texts have addresses that may be fetched."""
    searches: Collection[WebSearch] = ()
    """Those of the request."""
    domains: Domains = field(default_factory=Domains)
    """Of which pages may be."""
    max_uses: int | None = None
    max_tokens: int | None = None
    """Of a page."""
    citations: bool = False
    _uses: int = 0
    _texts: list[str] = field(default_factory=list)
    """Of the pages so far."""

    @property
    def label(self) -> ToolLabel:
        return ToolLabel("fetch", NAME)

    async def run(self, arguments: str) -> GatewayResult:
        """Fetch a page, and return its text or the reason why there is none."""
        url = str(json.loads(arguments)[URL]).strip()
        self._uses += 1
        try:
            self._check(url)
            async with asyncio.timeout(SECONDS):
                address, page = await self.fetcher.page(url, self.domains)
        except (FetchFailed, TimeoutError) as error:
            problem = error.problem if isinstance(error, FetchFailed) else "url_not_accessible"
            return _failed(url, problem, "timeout" if isinstance(error, TimeoutError) else "error")
        most = MAX_TEXT if self.max_tokens is None else min(MAX_TEXT, self.max_tokens * TOKEN)
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        title, text = page.title[:MAX_URL], page.text[:most]
        self._texts.append(text)
        fetched = FetchedPage(address, title, text, now, citations=self.citations)
        return GatewayResult(fetched_text(fetched), fetched)

    def refused(self, reason: str) -> GatewayResult:
        """Return the result of a fetch that does not run. A client knows the code only, so this is
        all that the model sees: the same as in later requests."""
        return _failed("", "max_uses_exceeded", "refused")

    def _check(self, url: str) -> None:
        """Raise FetchFailed."""
        if self.max_uses is not None and self._uses > self.max_uses:
            raise FetchFailed("max_uses_exceeded")
        if len(url) > MAX_URL:
            raise FetchFailed("url_too_long")
        _address(url)
        results = {page for search in self.searches for page in search.found}
        if url not in results and not any(url in text for text in self._known()):
            raise FetchFailed("url_not_in_prior_context")

    def _known(self) -> Iterator[str]:
        yield from self._texts
        yield from _texts_in(self.given)


def page_fetcher(settings: Settings) -> PageFetcher:
    """Return what fetches the pages that the operator allows."""
    allowed = settings.web_fetch
    return PageFetcher(Domains(() if "*" in allowed else allowed))


def _failed(url: str, problem: Problem, result: CallResult) -> GatewayResult:
    page = FetchedPage(url[:MAX_URL], problem=problem)
    return GatewayResult(fetched_text(page), page, result=result)


def fetched_text(page: FetchedPage) -> str:
    """Return what the model sees of a page, or of a code of an error."""
    if page.problem is not None:
        named = (text for code, text in ERRORS.items() if code == page.problem)
        reason = next(named, page.problem)
        return f"The fetch did not succeed: {reason}. Answer with what is known."
    return "\n".join(line for line in (page.title, page.url, page.text) if line)


def _address(url: str) -> httpx.URL:
    """Raise FetchFailed. Both parsers must find the same host, and only usual ports are allowed."""
    try:
        address = checked(url)
        if (urlsplit(str(address)).hostname or "") != address.raw_host.decode().strip("[]").lower():
            raise FetchFailed("invalid_tool_input")
    except (NotFetched, ValueError) as error:
        raise FetchFailed("invalid_tool_input") from error
    if address.port is not None or "/.." in address.path:
        raise FetchFailed("url_not_allowed")
    return address


async def _text(answer: Answer) -> PageText:
    """Raise FetchFailed."""
    if answer.status != 200:
        raise FetchFailed("url_not_accessible")
    if answer.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise FetchFailed("unsupported_content_type")
    kind = answer.headers.get("content-type", "")
    page = await asyncio.to_thread(page_text, answer.data, kind)
    if page is None:
        raise FetchFailed("unsupported_content_type")
    return page


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(each)
