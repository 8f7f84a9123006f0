"""JSON Schemas of functions that features offer to the model."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def typed(kind: str, description: str, **more: Any) -> Schema:
    return {"type": kind, **more, "description": description}


def closed(properties: Schema, *required: str) -> Schema:
    """Return the schema of an object with no other members. `required`: all of them, if none is
    named."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*(required or properties)],
        "additionalProperties": False,
    }
