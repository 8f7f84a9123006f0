"""A scripted search engine with the API of SearXNG (https://docs.searxng.org/dev/search_api.html)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit


@dataclass
class SearchEngine:
    pages: list[dict[str, str]] = field(default_factory=list)
    """The results of every query: `title`, `url`, `content`."""
    status: int = 200
    queries: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def running() -> Iterator[SearchEngine]:
    engine = SearchEngine()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            engine.queries.append(parse_qs(urlsplit(self.path).query)["q"][0])
            body = json.dumps({"results": engine.pages}).encode()
            self.send_response(engine.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    engine.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield engine
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
