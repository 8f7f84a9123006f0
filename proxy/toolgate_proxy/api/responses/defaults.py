"""The defaults of a deployment, which are parameters of chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .parameters import BY_NAME

RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
INSIDE = {"reasoning_effort": ("reasoning", "effort"), "verbosity": ("text", "verbosity")}


def with_defaults(body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the defaults that it does not set, under the names of this API. Defaults that
    are of no use here are left out: `n`, `stream_options`, `functions` …"""
    merged: dict[str, Any] = {}
    for name, value in defaults.items():
        name = RENAMED.get(name, name)
        if name in INSIDE:
            outer, inner = INSIDE[name]
            merged[outer] = {**merged.get(outer, {}), inner: value}
        elif name == "response_format":
            merged["text"] = {**merged.get("text", {}), "format": _format(value)}
        elif name in BY_NAME and name not in ("tool_choice", "tools", "stream_options"):
            merged[name] = value
    for name, value in body.items():
        if name in ("reasoning", "text") and isinstance(value, dict):
            value = {**merged.get(name, {}), **value}
        if value is not None or name not in merged:
            merged[name] = value
    return merged


def _format(given: Any) -> Any:
    """Convert `response_format` to `text.format`."""
    nested = given.get("json_schema") if isinstance(given, dict) else None
    return {"type": "json_schema", **nested} if isinstance(nested, dict) else given
