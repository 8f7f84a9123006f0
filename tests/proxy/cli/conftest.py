"""A gateway that answers from a script, for the commands that ask one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import unquote

import pytest


class ScriptedGateway:
    """`GET /v1/models` lists `names`, each model with the fields in `shown`. Each chat completion
    is the next of `answers`: chunks, or a status and an error. Keys other than `key` get a 401."""

    def __init__(self) -> None:
        self.key = "sk-of-the-gateway"
        self.names: tuple[str, ...] = ("m",)
        self.shown: dict[str, Any] = {}
        self.answers: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        """The bodies of chat completions."""
        self.paths: list[str] = []
        """The paths of other requests."""
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                gateway.paths.append(self.path)
                allowed = self.headers["Authorization"] == f"Bearer {gateway.key}"
                path, _, name = self.path.partition("?")[0].partition("/v1/models")
                models = [{"id": name, **gateway.shown} for name in gateway.names]
                one = [model for model in models if f"/{model['id']}" == unquote(name)]
                found = allowed and not path and (not name or bool(one))
                self._answer(200 if found else 401)
                self.wfile.write(json.dumps(one[0] if one else {"data": models}).encode())

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                gateway.requests.append(json.loads(self.rfile.read(length)))
                answer = gateway.answers.pop(0)
                if not isinstance(answer, list):
                    self._answer(answer[0])
                    self.wfile.write(answer[1].encode())
                    return
                self._answer(200)
                for chunk in answer:
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.write(b": keep-alive\n\ndata: [DONE]\n\n")

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def gateway() -> Iterator[ScriptedGateway]:
    made = ScriptedGateway()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()
