"""An MCP server over stdin and stdout: one tool that works, one that fails, and one whose schema is
no JSON Schema. Each call is a line in the file of the first argument."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

HANGS = -1
"""The id that takes for ever."""
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


def command(calls: Path) -> dict[str, Any]:
    """Return the server in LiteLLM's configuration. `calls`: the file of calls."""
    return {"transport": "stdio", "command": sys.executable, "args": [__file__, str(calls)]}


def result(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "shop", "version": "1"},
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            with Path(sys.argv[1]).open("a", encoding="utf-8") as calls:
                calls.write(json.dumps(params["arguments"]) + "\n")
            if params["arguments"]["id"] == HANGS:
                time.sleep(3600)
            text = f"Found record {params['arguments']['id']}."
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return {}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue  # a notification
        params = message.get("params") or {}
        if params.get("name") == "fail":
            sys.exit("It fails.")
        answer = result(message["method"], params)
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)


if __name__ == "__main__":
    main()
