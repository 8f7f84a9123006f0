"""The hostile MCP server, a program: the protocol by the package `mcp`, and faults in front of it.

Arguments: the listening socket, the file to which each call is written before anything else
happens to it, and `quiet` if lists have no faults. The process that listens ends and begins anew;
its parent has loaded everything.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.long.hostile_loops.tools import offered

HUGE = "word 北京 " * 400_000
LIST_FAULTS = {5: "slow", 11: "wrong", 17: "cut", 23: "drops"}
"""By number of a list, modulo 24."""
CRASHED = 3
"""Exit status of the process that a call has crashed."""
listings = 0


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description="Does it.", input_schema=schema)
            for name, schema in offered(listings).items()
        ]
    )


async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    match params.name:
        case "raises":
            raise ValueError("secret of the server")
        case "huge":
            text = HUGE
        case _:
            text = f"{params.name} did it: {json.dumps(params.arguments)}"
    content: list[Any] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, is_error=params.name == "fails")


class Faults:
    """ASGI middleware that writes calls down, and answers some requests wrongly."""

    def __init__(self, app: ASGIApp, calls: Path, *, quiet: bool) -> None:
        self._list_faults = {} if quiet else LIST_FAULTS
        self._app = app
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        asked = json.loads(body)
        fault = self._fault(asked)
        if fault is not None and await _answered_wrongly(fault, asked, send):
            return
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, again, send)

    def _fault(self, asked: dict[str, Any]) -> str | None:
        global listings
        match asked.get("method"):
            case "tools/list":
                listings += 1
                return self._list_faults.get(listings % 24)
            case "tools/call":
                params = asked["params"]
                call = {"name": params["name"], "arguments": params.get("arguments")}
                with self._calls.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(call) + "\n")
                return str(params["name"])
        return None


async def _answered_wrongly(fault: str, asked: dict[str, Any], send: Send) -> bool:
    wrong = {"content": "no list", "tools": [{"name": 3}], "isError": "perhaps"}
    body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": wrong}).encode()
    match fault:
        case "crashes":
            os._exit(CRASHED)
        case "slow":
            await asyncio.sleep(3600)
        case "drops":
            raise ConnectionError("by script")
        case "wrong" | "cut":
            headers = [(b"content-type", b"application/json")]
            if fault == "cut":
                headers.append((b"content-length", str(len(body)).encode()))
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            half = len(body) // 2 if fault == "cut" else len(body)
            await send({"type": "http.response.body", "body": body[:half], "more_body": True})
            if fault == "cut":
                raise ConnectionError("by script")
            await send({"type": "http.response.body", "body": b""})
        case _:
            return False
    return True


def main() -> None:
    listener, calls, name = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
    child = 0

    def end(*_: object) -> None:
        if child:
            os.kill(child, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    while True:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            serve(listener, calls, quiet=name == "quiet")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        child = 0
        if os.waitstatus_to_exitcode(status) != CRASHED:
            sys.exit("The server ended.")


def serve(listener: socket.socket, calls: Path, *, quiet: bool) -> None:
    server: Server[Any] = Server("hostile", on_list_tools=list_tools, on_call_tool=call_tool)
    app = Faults(
        server.streamable_http_app(stateless_http=True, json_response=True), calls, quiet=quiet
    )
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run([listener])


if __name__ == "__main__":
    main()
