"""`response_format`: what the content is held to."""

from __future__ import annotations

from toolgate_core.errors import UnsupportedParameter
from toolgate_core.plan import Tool, content_format

from .checks import Fields

SCHEMA_PARAM = "response_format.json_schema.schema"
ANY_OBJECT = {"type": "object"}


def response_format(fields: Fields, *, open_objects: bool = False) -> Tool | None:
    """None for plain text. Raises InvalidRequest with `param` set."""
    given = fields.mapping("response_format")
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
    return content_format(schema, param=SCHEMA_PARAM, open_objects=open_objects)
