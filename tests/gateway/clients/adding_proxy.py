"""An HTTP server before a gateway that adds parameters to the requests of clients which can't set
them, and keeps the bodies."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx


class AddingProxy(ThreadingHTTPServer):
    """`added`: the parameters of each request, in turn."""

    def __init__(self, gateway: str, added: Sequence[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gateway = gateway
        self.left = [*added]
        self.bodies: list[dict[str, Any]] = []
        self.answers: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: AddingProxy

    def do_GET(self) -> None:
        self._return(self._asked("GET", None))

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(sent)
        answer = self._asked("POST", sent | self.server.left.pop(0))
        self.server.answers.append(answer.content)
        self._return(answer)

    def _asked(self, method: str, body: dict[str, Any] | None) -> httpx.Response:
        names = ("authorization", "anthropic-beta", "anthropic-version")
        return httpx.request(
            method,
            f"{self.server.gateway}{self.path}",
            json=body,
            headers={name: self.headers[name] for name in names if name in self.headers},
            timeout=120,
            trust_env=False,
        )

    def _return(self, answer: httpx.Response) -> None:
        self.send_response(answer.status_code)
        self.send_header("content-type", answer.headers["content-type"])
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def adding_proxy(gateway: str, added: Sequence[dict[str, Any]]) -> Iterator[AddingProxy]:
    with AddingProxy(gateway, added) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)
