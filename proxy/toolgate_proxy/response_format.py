"""What the content is held to: `response_format`, and vLLM's `structured_outputs` as far as it says
the same.
"""

from __future__ import annotations

import json
from typing import Any

from toolgate_core.errors import UnsupportedParameter
from toolgate_core.plan import Tool, content_format

from .checks import Fields

SCHEMA_PARAM = "response_format.json_schema.schema"
STRUCTURED_PARAM = "structured_outputs.json"
ANY_OBJECT = {"type": "object"}


def response_format(fields: Fields) -> Tool | None:
    """None for plain text. Raises InvalidRequest with `param` set."""
    given = fields.mapping("response_format")
    structured = fields.mapping("structured_outputs")
    if structured is not None:
        if given is not None and given.get("type") != "text":
            raise UnsupportedParameter(
                "'structured_outputs' can't be combined with 'response_format'.",
                param="structured_outputs",
            )
        return _structured(structured)
    if given is None:
        return None
    outer = Fields(given, "response_format")
    kind = outer.text("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return content_format(ANY_OBJECT, param="response_format")
    if kind != "json_schema":
        raise UnsupportedParameter(
            f"A response_format of type {kind!r} is not supported: text, json_object or "
            "json_schema.",
            param="response_format.type",
        )
    inner = outer.mapping("json_schema")
    if inner is None:
        raise outer.wrong("json_schema", "an object with a name and a schema")
    named = Fields(inner, "response_format.json_schema")
    named.text("name")
    named.flag("strict")  # every schema is held to, strict or not
    schema = named.mapping("schema")
    if schema is None:
        raise named.wrong("schema", "a JSON Schema")
    return content_format(schema, param=SCHEMA_PARAM)


def _structured(given: dict[str, Any]) -> Tool | None:
    given = {name: value for name, value in given.items() if value is not None}
    outer = Fields(given, "structured_outputs")
    for name in outer.values:
        if name not in ("json", "json_object"):
            path = f"structured_outputs.{name}"
            raise UnsupportedParameter(
                f"{path!r} is not supported: give a JSON Schema, by `enum` or `pattern` say.",
                param=path,
            )
    if "json" not in outer.values:
        wanted = outer.flag("json_object")
        return content_format(ANY_OBJECT, param="structured_outputs") if wanted else None
    schema = outer.values["json"]
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError):
            schema = None
    if not isinstance(schema, dict):
        raise Fields({}, "structured_outputs").wrong("json", "a JSON Schema")
    return content_format(schema, param=STRUCTURED_PARAM)
