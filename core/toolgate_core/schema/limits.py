"""Limits on a schema's size, checked in plain Python before anything else touches it.

The defaults are no stricter than OpenAI's own for strict tools (platform.openai.com/docs/guides/
structured-outputs, supported schemas: 5,000 properties, 120,000 characters of names and values,
1,000 enum values), but for depth, where ours is looser: 64 levels instead of 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..errors import SchemaTooComplex
from ..grammar_key import MAX_DEPTH, MAX_NODES, canonical_json
from ..pointer import Trail, escape, joined


@dataclass(frozen=True)
class SchemaLimits:
    """Of one tool's parameters."""

    bytes: int = 1_000_000
    """Of its canonical JSON."""
    depth: int = 64
    """Levels of JSON, the values at the leaves included: each level of objects takes two."""
    nodes: int = 50_000
    """Values of any kind."""
    properties: int = 5_000
    """Members of `properties` maps, over the whole schema."""
    enum_values: int = 1_000
    """Over all enums of the schema."""
    text: int = 120_000
    """Characters of property names, enum and const strings, over the whole schema."""


_DEFAULTS = SchemaLimits()


class SchemaLimitSettings(BaseModel):
    """The limits as settings, for both sides: TOOLGATE_SCHEMA_MAX_<NAME>."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    schema_max_bytes: int = Field(default=_DEFAULTS.bytes, gt=0)
    """Of the canonical JSON of one tool's parameters."""
    schema_max_depth: int = Field(default=_DEFAULTS.depth, gt=0, le=MAX_DEPTH)
    """Levels of nesting. At most 100: what is recursive in Python behind this check must not
    overflow."""
    schema_max_nodes: int = Field(default=_DEFAULTS.nodes, gt=0, le=MAX_NODES)
    """Values of any kind."""
    schema_max_properties: int = Field(default=_DEFAULTS.properties, gt=0)
    """Members of `properties`, over the whole schema."""
    schema_max_enum_values: int = Field(default=_DEFAULTS.enum_values, gt=0)
    """Over all enums of the schema."""
    schema_max_text: int = Field(default=_DEFAULTS.text, gt=0)
    """Characters of property names, enum and const strings, over the whole schema."""

    @property
    def schema_limits(self) -> SchemaLimits:
        return SchemaLimits(
            bytes=self.schema_max_bytes,
            depth=self.schema_max_depth,
            nodes=self.schema_max_nodes,
            properties=self.schema_max_properties,
            enum_values=self.schema_max_enum_values,
            text=self.schema_max_text,
        )


def check_limits(parameters: dict[str, Any], limits: SchemaLimits, *, param: str) -> None:
    """Raises SchemaTooComplex with the pointer of the place at which a limit was passed.

    One pass, level by level, without recursion; it stops at the first limit it meets. What JSON
    cannot spell (NaN, lone halves of surrogate pairs) passes: `keys.tool_hash` and the engines have
    their own words for it.
    """
    counts = {"nodes": 0, "properties": 0, "enum_values": 0, "text": 0}
    level: list[tuple[Trail, object]] = [(None, parameters)]
    depth = 0
    while level:
        depth += 1
        if depth > limits.depth:
            raise _too_complex("depth", limits.depth, level[0][0], param)
        below: list[tuple[Trail, object]] = []
        for trail, value in level:
            counts["nodes"] += 1
            _count(value, counts)
            for name in counts:
                if counts[name] > getattr(limits, name):
                    raise _too_complex(name, getattr(limits, name), trail, param)
            below.extend(_children(trail, value))
            if counts["nodes"] + len(below) > limits.nodes:
                raise _too_complex("nodes", limits.nodes, trail, param)
        level = below
    if _size(parameters) > limits.bytes:
        raise _too_complex("bytes", limits.bytes, None, param)


def _size(parameters: dict[str, Any]) -> int:
    """Of the canonical JSON; recursive, so only for what is known to be shallow."""
    try:
        return len(canonical_json(parameters))
    except ValueError:
        return 0


def _count(value: object, counts: dict[str, int]) -> None:
    if not isinstance(value, dict):
        return
    properties, enum = value.get("properties"), value.get("enum")
    if isinstance(properties, dict):
        counts["properties"] += len(properties)
        counts["text"] += sum(len(name) for name in properties)
    if isinstance(enum, list):
        counts["enum_values"] += len(enum)
        counts["text"] += sum(len(text) for text in enum if isinstance(text, str))
    if isinstance(value.get("const"), str):
        counts["text"] += len(value["const"])


def _children(trail: Trail, value: object) -> list[tuple[Trail, object]]:
    if isinstance(value, dict):
        return [((trail, f"/{escape(str(name))}"), child) for name, child in value.items()]
    if isinstance(value, list):
        return [((trail, f"/{at}"), child) for at, child in enumerate(value)]
    return []


_NAMES = {
    "bytes": "bytes of canonical JSON",
    "depth": "levels of nesting",
    "nodes": "values",
    "properties": "properties",
    "enum_values": "enum values",
    "text": "characters of names and values",
}


def _too_complex(name: str, limit: int, trail: Trail, param: str) -> SchemaTooComplex:
    return SchemaTooComplex(
        f"This schema has more than {limit:,} {_NAMES[name]}; split the tool or simplify it.",
        pointer=joined(trail),
        param=param,
    )
