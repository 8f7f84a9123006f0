"""An MCP server with 40 tools over stdin and stdout, for clients that search for tools."""

from __future__ import annotations

import json
import sys
from typing import Any

COUNT = 40
COMMAND = (sys.executable, __file__)


def tool(number: int) -> dict[str, Any]:
    return {
        "name": f"lookup_{number}",
        "description": f"Looks up a record of shelf {number} by its id.",
        "inputSchema": {
            "type": "object",
            "properties": {"id": {"type": "integer"}},
            "required": ["id"],
        },
    }


def result(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "shop", "version": "1"},
            }
        case "tools/list":
            return {"tools": [tool(number) for number in range(COUNT)]}
        case "tools/call":
            text = f"{params['name']} found record {params['arguments']['id']}."
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return {}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue  # a notification
        found = result(message["method"], message.get("params") or {})
        response = {"jsonrpc": "2.0", "id": message["id"], "result": found}
        print(json.dumps(response), flush=True)


if __name__ == "__main__":
    main()
