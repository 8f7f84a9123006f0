"""What the content is held to: `response_format`, and vLLM's `structured_outputs` as far as it says
the same.
"""

from __future__ import annotations

import json
from typing import Any

from toolgate_core.errors import UnsupportedParameter
from toolgate_core.plan import Tool, content_format, text_format

from ...request_fields import Fields

SCHEMA_PARAM = "response_format.json_schema.schema"
STRUCTURED_PARAM = "structured_outputs"
MAX_CHOICES = 1000
MAX_REGEX = 2000
ANY_OBJECT = {"type": "object"}


def response_format(fields: Fields, *, open_objects: bool = False) -> Tool | None:
    """None for plain text. Raises InvalidRequest with `param` set."""
    given = fields.mapping("response_format")
    structured = fields.mapping("structured_outputs")
    if structured is not None:
        if given is not None and given.get("type") != "text":
            raise UnsupportedParameter(
                "'structured_outputs' can't be combined with 'response_format'.",
                param="structured_outputs",
            )
        return _structured(structured, open_objects=open_objects)
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


def _structured(given: dict[str, Any], *, open_objects: bool) -> Tool | None:
    given = {name: value for name, value in given.items() if value is not None}
    outer = Fields(given, STRUCTURED_PARAM)
    for name in given:
        if name not in ("json", "json_object", "choice", "regex"):
            path = outer.path(name)
            raise UnsupportedParameter(
                f"{path!r} is not supported: json, json_object, choice or regex.", param=path
            )
    if len(given) > 1:
        raise outer.wrong(next(iter(given)), "the only one")
    if "choice" in given:
        return text_format("choice", _texts(outer))
    if (regex := outer.text("regex")) is not None:
        if not 0 < len(regex) <= MAX_REGEX:
            raise outer.wrong("regex", f"a pattern of up to {MAX_REGEX} characters")
        return text_format("regex", regex)
    if outer.flag("json_object"):
        return content_format(ANY_OBJECT, param=STRUCTURED_PARAM)
    if "json" not in given:
        return None
    return content_format(_schema(outer), param=outer.path("json"), open_objects=open_objects)


def _texts(outer: Fields) -> list[str]:
    texts = outer.items("choice") or []
    if not 0 < len(texts) <= MAX_CHOICES or not all(
        isinstance(text, str) and 0 < len(text) <= MAX_REGEX for text in texts
    ):
        raise outer.wrong("choice", f"an array of up to {MAX_CHOICES} texts, none empty")
    return list(dict.fromkeys(texts))


def _schema(outer: Fields) -> dict[str, Any]:
    schema = outer.values["json"]
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError):
            schema = None
    if not isinstance(schema, dict):
        raise outer.wrong("json", "a JSON Schema")
    return schema
