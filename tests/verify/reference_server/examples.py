"""Valid values of schemas: those of the checks' own tools, and simple ones of others."""

from __future__ import annotations

from typing import Any

from toolgate_verify.tools.everyday import EVERYDAY
from toolgate_verify.tools.hostile import HOSTILE
from toolgate_verify.tools.residual import RESIDUAL
from toolgate_verify.tools.sets import COPY, ENDLESS, LONG, LONGEST_NAME, MANY, PREFIXES, SETS
from toolgate_verify.tools.tool import Tool

TOOLS: tuple[Tool, ...] = (
    *EVERYDAY,
    *HOSTILE,
    *RESIDUAL,
    *(tool for tools, _ in SETS.values() for tool in tools),
    *PREFIXES,
    *MANY,
    LONGEST_NAME,
    LONG,
    ENDLESS,
    COPY,
)


def known(name: str, parameters: Any) -> Tool | None:
    return next((t for t in TOOLS if (t.name, t.parameters) == (name, parameters)), None)


def arguments(name: str, parameters: Any) -> Any:
    tool = known(name, parameters)
    return tool.example if tool is not None else value(parameters)


def value(schema: Any) -> Any:
    """A value of a simple schema."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {name: value(properties[name]) for name in schema.get("required", ())}
    if schema.get("type") == "array":
        return [value(schema["items"])] * schema.get("minItems", 0)
    return {"boolean": True, "integer": schema.get("minimum", 0), "string": "text"}[schema["type"]]
