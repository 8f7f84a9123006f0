"""An MCP server over stdin and stdout: one tool that works, one that fails, and one whose schema is
no JSON Schema. Each call is a line in the file of the first argument. Without arguments, it has 40
tools that work, for clients that search for tools."""

import json
import sys
import time
from pathlib import Path
from typing import Any

HANGS, FLOODS = -1, -2
"""The ids that take for ever, and that make the server write a line of FLOOD megabytes. It notes
each of them as a call."""
FLOOD = 64
RECORD = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "lookup",
        "description": "Looks up a record by its id.",
        "inputSchema": RECORD,
        "annotations": {"readOnlyHint": True},
    },
    {"name": "fail", "description": "Ends the server.", "inputSchema": RECORD},
    {
        "name": "odd",
        "description": "Is odd.",
        "inputSchema": {"type": "object", "properties": {"id": {"type": "strange"}}},
    },
]
CATALOGUE = [
    {
        "name": f"lookup_{number}",
        "description": f"Looks up a record of shelf {number} by its id.",
        "inputSchema": RECORD,
    }
    for number in range(40)
]
CATALOGUE_SERVER = {"command": sys.executable, "args": [__file__]}


def command(calls: Path) -> dict[str, Any]:
    """Return the server in LiteLLM's configuration. `calls`: the file of calls."""
    return {"transport": "stdio", "command": sys.executable, "args": [__file__, str(calls)]}


def result(
    method: str, params: dict[str, Any], tools: list[dict[str, Any]] = TOOLS
) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "shop", "version": "1"},
            }
        case "tools/list":
            return {"tools": tools}
        case "tools/call":
            note(params["arguments"])
            for _ in range(FLOOD * (params["arguments"]["id"] == FLOODS)):
                sys.stdout.write("x" * 1_000_000)
                note(params["arguments"])
            if params["arguments"]["id"] == HANGS:
                time.sleep(3600)
            text = f"{params['name']} found record {params['arguments']['id']}."
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return {}


def note(arguments: dict[str, Any]) -> None:
    for path in sys.argv[1:]:
        with Path(path).open("a", encoding="utf-8") as calls:
            calls.write(json.dumps(arguments) + "\n")


def main() -> None:
    tools = TOOLS if sys.argv[1:] else CATALOGUE
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue  # a notification
        params = message.get("params") or {}
        if params.get("name") == "fail":
            sys.exit("It fails.")
        answer = result(message["method"], params, tools)
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)


if __name__ == "__main__":
    main()
