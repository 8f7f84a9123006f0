"""Web search that the gateway runs: the tool that the model is offered, and the results of a call.

The search engine is the operator's: LiteLLM's `search_tools`. Nothing else is fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from ...api.shared.tools import closed, typed
from ...api.surface import Provision
from ...request.gateway_tools import CallResult, GatewayResult, ToolLabel
from ...request_fields import Fields, invalid_value
from ...sealing import OwnerSeal


@dataclass(frozen=True)
class Domains:
    """Which pages a request, or the operator, allows."""

    allowed: Sequence[str] = ()
    """Domains of which pages may be. Empty: all."""
    blocked: Sequence[str] = ()

    def allow(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower().rstrip(".")
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not host:
            return False
        if self.allowed and not any(_is_within(host, parts.path, each) for each in self.allowed):
            return False
        return not any(_is_within(host, parts.path, each) for each in self.blocked)


def read_domains(fields: Fields, name: str) -> tuple[str, ...]:
    """Return the domains in a field. Raise InvalidRequest."""
    domains = fields.items(name) or []
    for at, domain in enumerate(domains):
        if not isinstance(domain, str) or not domain:
            raise invalid_value(f"{fields.path(name)}[{at}]", "a domain", domain)
    return tuple(domains)


def _is_within(host: str, path: str, domain: str) -> bool:
    """Return whether a page is of a domain, or of one below it. `domain` may have a path, as in
    Anthropic's API: `example.com/blog`."""
    name, _, below = domain.lower().strip().removeprefix("https://").partition("/")
    is_of_domain = host == name or host.endswith(f".{name}")
    return is_of_domain and (not below or path.lstrip("/").lower().startswith(below.rstrip("*")))


PURPOSE = "web search results"
"""Of the seals."""
NAME = "web_search"
"""The name of the function that the model sees."""
QUERY = "query"
MAX_PAGES = 8
"""Most results of one search."""
MAX_QUERY = 500
"""Most characters of a query that is sent to the search engine."""
MAX_TEXT = 1_500
"""Most characters of the text of one result."""
NO_RESULTS = "No results."
Problem = Literal["max_uses_exceeded", "invalid_tool_input", "unavailable"]
ERRORS: dict[Problem, str] = {
    "max_uses_exceeded": "The search did not run: the request allows no more searches. Answer "
    "with what is known.",
    "invalid_tool_input": "The search did not run: the query is empty.",
    "unavailable": "The search failed: the search engine does not respond. Answer with what is "
    "known.",
}
"""What the model sees, by the code that Anthropic's API has for it."""
FUNCTION: dict[str, Any] = {
    "name": NAME,
    "description": "Search the web. Returns titles, addresses and excerpts of pages.",
    "parameters": closed({QUERY: typed("string", "What to search for.")}),
}


@dataclass(frozen=True)
class WebPage:
    """A result of a search."""

    url: str
    title: str
    text: str
    """An excerpt; empty if it is not known any more."""
    age: str | None = None
    """The date of the page, as the search engine gives it."""
    sealed: str = ""
    """The text, encrypted for the owner of the request, who sends it back with the next turn."""


class SearchFailed(Exception):
    """The search engine did not respond, or refused the query."""


class SearchEngine(Provision):
    name: str
    """The configured one."""

    async def search(self, query: str, *, domains: Sequence[str], limit: int) -> list[WebPage]:
        """Return at most about `limit` results. `domains`: only of these, if there are any. The
        engine may ignore both. Raise SearchFailed."""
        raise NotImplementedError


@dataclass(frozen=True)
class SearchResults:
    """What a search shows the client."""

    query: str
    pages: tuple[WebPage, ...] = ()
    problem: Problem | None = None
    sealed: str = ""
    """What the model sees, encrypted as the texts of pages."""


@dataclass
class WebSearch:
    """The web search of one request."""

    engine: SearchEngine
    seal: OwnerSeal | None
    """Of the sender."""
    domains: Domains = field(default_factory=Domains)
    """Of which pages may be."""
    max_uses: int | None = None
    found: set[str] = field(default_factory=set)
    """The addresses of all results so far."""
    _uses: int = 0

    @property
    def label(self) -> ToolLabel:
        return ToolLabel("search", NAME, self.engine.name)

    async def run(self, arguments: str) -> GatewayResult:
        """Search, and return the results with domains that the request allows."""
        query = str(json.loads(arguments)[QUERY]).strip()[:MAX_QUERY]
        problem: Problem | None = None
        found: list[WebPage] = []
        self._uses += 1
        if self.max_uses is not None and self._uses > self.max_uses:
            problem = "max_uses_exceeded"
        elif not query:
            problem = "invalid_tool_input"
        else:
            try:
                found = await self.engine.search(
                    query, domains=self.domains.allowed, limit=MAX_PAGES
                )
            except SearchFailed:
                problem = "unavailable"
        return self._result(query, found, problem)

    def refused(self, reason: str) -> GatewayResult:
        """Return the result of a search that does not run."""
        shown = SearchResults("", (), "max_uses_exceeded", self._encrypted(reason))
        return GatewayResult(reason, shown, result="refused")

    def _result(self, query: str, found: list[WebPage], problem: Problem | None) -> GatewayResult:
        allowed = [_shortened(page) for page in found if self.domains.allow(page.url)][:MAX_PAGES]
        self.found |= {page.url for page in allowed}
        text = results_text(allowed, problem)
        pages = tuple(replace(page, sealed=self._encrypted(page.text)) for page in allowed)
        shown = SearchResults(query, pages, problem, self._encrypted(text))
        result: CallResult = "refused" if problem == "max_uses_exceeded" else "error"
        return GatewayResult(text, shown, result="ok" if problem is None else result)

    def _encrypted(self, text: str) -> str:
        return "" if self.seal is None else self.seal.seal_text(text, purpose=PURPOSE)


def results_text(pages: Iterable[WebPage], problem: str | None = None) -> str:
    """Return what the model sees of a search. `problem`: the code of an error."""
    if problem is not None:
        return next((text for code, text in ERRORS.items() if code == problem), problem)
    return "\n\n".join(_page_text(at, page) for at, page in enumerate(pages, 1)) or NO_RESULTS


def _page_text(number: int, page: WebPage) -> str:
    age = f" ({page.age})" if page.age else ""
    lines = [f"[{number}] {page.title}{age}", page.url, page.text]
    return "\n".join(line for line in lines if line)


def _shortened(page: WebPage) -> WebPage:
    return replace(page, title=page.title[:MAX_TEXT], text=page.text[:MAX_TEXT])


def opened(seal: OwnerSeal | None, sealed: object) -> str | None:
    """Return a text that `WebSearch` sealed; None if it was changed, or sealed for another owner or
    by another service."""
    if seal is None or not isinstance(sealed, str):
        return None
    return seal.open_text(sealed, purpose=PURPOSE)


MORE = r"(?![\w%&=#?~+@-]|[./:]\w)"
"""What would continue an address."""


@dataclass(frozen=True)
class Citation:
    """A text cites a page where it has the page's address."""

    page: WebPage
    start: int
    end: int
    """Of the address, in characters of the text."""


@dataclass
class FoundPages:
    """Collects the pages that the searches of a response find, and finds citations of them."""

    _pages: dict[str, WebPage] = field(default_factory=dict)
    """By address."""

    def add(self, pages: Iterable[WebPage]) -> None:
        self._pages = {page.url: page for page in pages} | self._pages

    def cited(self, text: str) -> list[Citation]:
        """Return the citations in a text, in their order."""
        if not self._pages:
            return []
        longest_first = sorted(self._pages, key=len, reverse=True)
        address = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))}){MORE}")
        return [Citation(self._pages[found[0]], *found.span()) for found in address.finditer(text)]
