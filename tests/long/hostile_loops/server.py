"""The hostile MCP server, a program: the protocol by the package `mcp`, and faults in front of it.

Arguments: the listening socket, the file to which each call is written before anything else
happens to it, and `quiet` if only calls have faults. The process that listens ends and begins anew;
its parent has loaded everything.
"""

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

from tests.long.hostile_loops.model import offered

HUGE = "word 北京 " * 150_000
STEPS = {"server/discover": 8, "initialize": 8, "tools/list": 4}
"""How many messages of a step have one fault between them. A call's fault is named by its tool."""
IN_TURN = ("slow", "hangs", "huge", "refuses", "wrong", "cut", "drops")
"""The faults of a step, which come in turn."""
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

    def __init__(self, app: ASGIApp, calls: Path, *, quiet: bool, start: int) -> None:
        self._app = app
        self._calls = calls
        self._quiet = quiet
        self._asked = {step: start * each for step, each in STEPS.items()}

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
        method, fault = asked.get("method", ""), None
        if method == "tools/list":
            listings += 1
        if method == "tools/call":
            params = asked["params"]
            self._note({"name": params["name"], "arguments": params.get("arguments")})
            return str(params["name"])
        if method in STEPS and not self._quiet:
            self._asked[method] += 1
            turn, rest = divmod(self._asked[method], STEPS[method])
            if rest == 0:
                fault = IN_TURN[turn % len(IN_TURN)]
                self._note({"step": method, "fault": fault})
        return fault

    def _note(self, what: dict[str, Any]) -> None:
        with self._calls.open("a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")


async def _answered_wrongly(fault: str, asked: dict[str, Any], send: Send) -> bool:
    match fault:
        case "crashes":
            os._exit(CRASHED)
        case "slow":
            await asyncio.sleep(3600)
        case "drops":
            raise ConnectionError("by script")
        case "wrong" | "cut" | "hangs" | "refuses":
            pass
        case "huge" if asked["method"] != "tools/call":
            pass
        case _:
            return False
    body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), **_result(fault, asked)}).encode()
    headers = [(b"content-type", b"application/json")]
    halved = fault in ("cut", "hangs")
    if halved:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    half = len(body) // 2 if halved else len(body)
    await send({"type": "http.response.body", "body": body[:half], "more_body": True})
    if fault == "hangs":
        await asyncio.sleep(3600)
    if fault == "cut":
        raise ConnectionError("by script")
    await send({"type": "http.response.body", "body": b""})
    return True


def _result(fault: str, asked: dict[str, Any]) -> dict[str, Any]:
    if fault == "refuses":
        return {"error": {"code": -32603, "message": "by script"}}
    if fault != "huge":
        wrong = {"content": "no list", "tools": [{"name": 3}], "isError": "perhaps"}
        return {"result": wrong}
    if asked["method"] == "tools/list":
        shown = {**offered(listings), **{f"more_{at}": {"type": "object"} for at in range(1000)}}
        tools = [
            {"name": name, "description": HUGE[:1_000], "inputSchema": schema}
            for name, schema in shown.items()
        ]
        return {"result": {"tools": tools}}
    begun = {
        "protocolVersion": asked["params"]["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "hostile", "version": "1"},
        "instructions": HUGE,
    }
    return {"result": begun}


def main() -> None:
    listener, calls, name = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
    child = start = 0

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
            serve(listener, calls, quiet=name == "quiet", start=start)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        child, start = 0, start + 1
        if os.waitstatus_to_exitcode(status) != CRASHED:
            sys.exit("The server ended.")


def serve(listener: socket.socket, calls: Path, *, quiet: bool, start: int) -> None:
    server: Server[Any] = Server("hostile", on_list_tools=list_tools, on_call_tool=call_tool)
    app = server.streamable_http_app(stateless_http=True, json_response=True)
    faulty = Faults(app, calls, quiet=quiet, start=start)
    uvicorn.Server(uvicorn.Config(faulty, log_level="critical")).run([listener])


if __name__ == "__main__":
    main()
