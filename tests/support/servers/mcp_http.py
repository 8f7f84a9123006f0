"""The MCP server of mcp_shop.py over HTTP, which notes the headers that it gets."""

import json
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.support.servers import mcp_shop
from tests.support.servers.loopback import Handler, handling


@dataclass
class HttpShop:
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """The method of each message, and the headers with which it came."""
    url: str = ""
    broken: bool = False
    """Whether calls are a 500."""
    padding: dict[str, int] = field(default_factory=dict)
    """By the method of a message: spaces that follow its answer."""
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the method of a message: what is answered instead of the usual."""
    called: list[str] = field(default_factory=list)
    """The names of the tools that were called."""

    def sent(self, header):
        """Return the values of a header, by the method of the message."""
        found = {}
        for method, headers in self.requests:
            found.setdefault(method, set()).add(headers.get(header.lower()))
        return found


@contextmanager
def running():
    shop = HttpShop()

    class Shop(Handler):
        def do_POST(self):
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            shop.requests.append((message["method"], headers))
            if "id" not in message:
                self._answer(202, None)
                return
            if shop.broken and message["method"] == "tools/call":
                self._answer(500, {"detail": "Broken."})
                return
            params = message.get("params") or {}
            if message["method"] == "tools/call":
                shop.called.append(params["name"])
            answer = shop.results.get(message["method"]) or _result(message["method"], params)
            body = {"jsonrpc": "2.0", "id": message["id"], "result": answer}
            self._answer(200, body, shop.padding.get(message["method"], 0))

        def do_GET(self):
            self._answer(405, None)

        do_DELETE = do_GET

        def _answer(self, status, body, padding=0):
            data = b"" if body is None else json.dumps(body).encode()
            with suppress(ConnectionError):  # a client may have read enough
                self.answer(status, data + b" " * padding)

    with handling(Shop) as url:
        shop.url = f"{url}/mcp"
        yield shop


def _result(method, params):
    if method == "tools/call":
        text = f"Found record {params['arguments']['id']}."
        return {"content": [{"type": "text", "text": text}]}
    return mcp_shop.result(method, params)
