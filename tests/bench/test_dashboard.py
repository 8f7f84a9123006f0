"""The queries of the dashboard, evaluated by a real Prometheus."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import pytest

from bench.chaos.dashboard import Shown, extra_requests, panels, prometheus

NAME = "toolgate_requests_total"
LABELS = 'status="200",model="m",surface="chat",key="k"'


@pytest.fixture
def exporter() -> Iterator[str]:
    """The address of a server whose counter of requests grows by ten with each scrape."""
    scrapes = count(1)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            value = 10 * next(scrapes)
            text = f"# TYPE {NAME} counter\n{NAME}{{{LABELS}}} {value}\n"
            self.send_response(200 if self.headers["authorization"] == "Bearer token" else 401)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus (a package)")
async def test_panels_have_the_series_that_prometheus_scraped(
    exporter: str, tmp_path: Path
) -> None:
    began = time.time()
    with prometheus([exporter], [], "token", tmp_path) as url:
        await asyncio.sleep(12)
        shown = {panel.title: panel async for panel in panels(url, began)}
    assert list(shown["Requests by status"].series) == ["200"]
    assert max(value for _, value in shown["Requests by status"].series["200"]) > 1
    assert shown["Redis errors"].series == {}
    assert "Promises" not in shown


def test_a_row_counts_series_and_points() -> None:
    panel = Shown("Tokens", {"in": [(0.0, 1.0), (0.1, 2.0)], "out": [(0.0, 1.0)]})
    assert panel.row() == "| Tokens | 2 | 3 |"


def test_extra_requests_have_both_apis() -> None:
    assert {path for path, _ in extra_requests({})} == {"/v1/chat/completions", "/v1/responses"}
