"""The defaults of a deployment, which are parameters of chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .parameters import BY_NAME

RENAMED = {"max_completion_tokens": "max_tokens", "stop": "stop_sequences"}
NOT_TAKEN = ("tools", "tool_choice", "metadata")
EFFORTS = {"minimal": "low"}
"""By effort of chat completions: the effort of this API, if it is another one."""


def with_defaults(body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the defaults that it does not set, under the names of this API. Defaults that
    are of no use here are left out: `n`, `stream_options`, `functions` …"""
    merged: dict[str, Any] = {}
    for name, value in defaults.items():
        name = RENAMED.get(name, name)
        if name == "reasoning_effort":
            _set_effort(merged, value)
        elif name == "response_format":
            _set_format(merged, value)
        elif name == "stop_sequences":
            merged[name] = [value] if isinstance(value, str) else value
        elif name in BY_NAME and name not in NOT_TAKEN:
            merged[name] = value
    for name, value in body.items():
        if name == "output_config" and isinstance(value, dict):
            value = {**merged.get(name, {}), **value}
        if value is not None or name not in merged:
            merged[name] = value
    return merged


def _set_effort(merged: dict[str, Any], effort: Any) -> None:
    if effort == "none":
        merged.setdefault("thinking", {"type": "disabled"})
        return
    config = merged.setdefault("output_config", {})
    config["effort"] = EFFORTS.get(effort, effort)


def _set_format(merged: dict[str, Any], given: Any) -> None:
    """JSON without a schema is not a format of this API."""
    nested = given.get("json_schema") if isinstance(given, dict) else None
    if isinstance(nested, dict):
        config = merged.setdefault("output_config", {})
        config["format"] = {"type": "json_schema", "schema": nested.get("schema")}
    elif isinstance(given, dict) and given.get("type") == "json_object":
        merged["structured_outputs"] = {"json_object": True}
