"""A scripted search engine with the API of SearXNG (https://docs.searxng.org/dev/search_api.html)."""

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.support.servers.loopback import Handler, handling


@dataclass
class SearchEngine:
    pages: list[dict[str, str]] = field(default_factory=list)
    """The results of every query: `title`, `url`, `content`."""
    status: int = 200
    queries: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def running():
    engine = SearchEngine()

    class Search(Handler):
        def do_GET(self):
            engine.queries.append(parse_qs(urlsplit(self.path).query)["q"][0])
            self.answer(engine.status, json.dumps({"results": engine.pages}).encode())

    with handling(Search) as engine.url:
        yield engine
