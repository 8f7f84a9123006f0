"""An HTTP server before a gateway that adds parameters to the requests of clients which can't set
them, and keeps the bodies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

import httpx

from tests.support.servers.loopback import Handler, running


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


class _Handler(Handler):
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
        self.answer(answer.status_code, answer.content, answer.headers["content-type"])


@contextmanager
def adding_proxy(gateway: str, added: Sequence[dict[str, Any]]) -> Iterator[AddingProxy]:
    server = AddingProxy(gateway, added)
    with running(server):
        yield server
