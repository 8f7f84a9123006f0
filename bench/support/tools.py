"""Tools for requests: those of BFCL, copies under other names, and one with long calls."""

import json
from typing import Any

from tests.support.shared_data import BFCL, records


def bfcl_tools() -> list[dict[str, Any]]:
    """All tools of BFCL, in OpenAI's format."""
    return [tool for case in records(BFCL) for tool in case["tools"]]


def small_tools(count: int) -> list[dict[str, Any]]:
    """The smallest BFCL tools that have two or more required strings, with distinct names.

    With random weights, a call with fewer free strings can end after a few tokens.
    """
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
    """A tool whose calls are longer than any response here: 60 required strings."""
    names = [f"part_{number}" for number in range(60)]
    properties = {name: {"type": "string"} for name in names}
    parameters = {"type": "object", "properties": properties, "required": names}
    return {"type": "function", "function": {"name": "write", "parameters": parameters}}


def renamed(tool: dict[str, Any], salt: str) -> dict[str, Any]:
    """The tool with `salt` in the names of its function and properties, so that it is new."""
    function = tool["function"]
    parameters = dict(function["parameters"])
    parameters["properties"] = {f"{k}_{salt}": v for k, v in parameters["properties"].items()}
    parameters["required"] = [f"{name}_{salt}" for name in parameters.get("required", [])]
    name = f"{function['name'][:40].replace('.', '_')}_{salt}"
    return {
        "type": "function",
        "function": {"name": name, "parameters": parameters, "strict": True},
    }
