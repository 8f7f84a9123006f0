"""Tools to measure with: BFCL's smallest, and one whose calls are long."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

SHARED = Path(os.environ.get("TOOLGATE_SHARED", Path(__file__).resolve().parents[3] / "shared"))


def bfcl_tools() -> list[dict[str, Any]]:
    """All of them, in the OpenAI form."""
    with gzip.open(SHARED / "data" / "bfcl.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [tool for line in lines for tool in json.loads(line)["tools"]]


def small_tools(count: int) -> list[dict[str, Any]]:
    """BFCL's smallest functions of different names with two required strings that may be any: by
    random weights, a call that needs one alone may end early."""
    tools = sorted(bfcl_tools(), key=lambda tool: (len(json.dumps(tool)), json.dumps(tool)))
    found: dict[str, dict[str, Any]] = {}
    for tool in tools:
        function = tool["function"]
        properties = function["parameters"].get("properties", {})
        required = [properties.get(k, {}) for k in function["parameters"].get("required", ())]
        texts = [each for each in required if each.get("type") == "string" and "enum" not in each]
        name = function["name"].replace(".", "_")
        if len(texts) > 1 and len(name) <= 64:
            found.setdefault(name, {"type": "function", "function": function | {"name": name}})
    return list(found.values())[:count]


def long_tool() -> dict[str, Any]:
    """Its calls outlast any answer here: string after string, each as long as chance has it."""
    names = [f"part_{number}" for number in range(60)]
    properties = {name: {"type": "string"} for name in names}
    parameters = {"type": "object", "properties": properties, "required": names}
    return {"type": "function", "function": {"name": "write", "parameters": parameters}}
