"""A server with scripted answers in the place of the gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

Answer = Callable[[dict[str, Any]], list[dict[str, Any]]]
"""The choices of the response to a chat completion."""


@dataclass
class ScriptedServer:
    answer: Answer
    events: Answer = lambda _: []
    """The events of a response without enforcement."""
    status: int = 200
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def serve() -> Iterator[Callable[[ScriptedServer], ScriptedServer]]:
    running: list[HTTPServer] = []

    def start(script: ScriptedServer) -> ScriptedServer:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                key = self.headers["authorization"]
                script.requests.append({"path": self.path, "key": key, **body})
                if self.path == "/toolgate/unconstrained":
                    lines = (f"data: {json.dumps(event)}\n\n" for event in script.events(body))
                    self._send("".join(lines), "text/event-stream")
                    return
                choices = [
                    {"index": index, "finish_reason": "stop", **choice}
                    for index, choice in enumerate(script.answer(body))
                ]
                made = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1}
                self._send(json.dumps({**made, "model": body["model"], "choices": choices}))

            def _send(self, body: str, media_type: str = "application/json") -> None:
                response = body.encode()
                self.send_response(script.status)
                self.send_header("content-type", media_type)
                self.send_header("content-length", str(len(response)))
                self.end_headers()
                self.wfile.write(response)

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        running.append(server)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        script.url = f"http://127.0.0.1:{server.server_port}"
        return script

    yield start
    for server in running:
        server.shutdown()
        server.server_close()
