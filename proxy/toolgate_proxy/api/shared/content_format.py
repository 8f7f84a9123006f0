"""The format of the content: JSON by a schema, or vLLM's `structured_outputs`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_core.tools import Tool, content_format, text_format

from ...request_fields import Fields
from .collection_types import JsonObject
from .parameter import Parameter

STRUCTURED_OUTPUTS = "structured_outputs"
MAX_CHOICES = 1000
MAX_REGEX = 2000
ANY_OBJECT = {"type": "object"}

CONTENT_FORMAT: tuple[Parameter, ...] = (
    Parameter(
        STRUCTURED_OUTPUTS,
        JsonObject(expected="an object with one of json, json_object, choice, regex"),
        origin="vLLM",
        note="Constrain the content, as `response_format` does.",
    ),
)

PLAIN_ONLY = ("allowed_token_ids", "repetition_detection")
"""Parameters for plain content. In a call or a format they could prevent required tokens."""


def check_plain_only(values: Mapping[str, Any], *constraints: str) -> None:
    """`constraints`: the parameters that add calls or a format. Raises UnsupportedParameter."""
    for name in PLAIN_ONLY:
        if name in values:
            for other in constraints:
                if values.get(other):
                    raise UnsupportedParameter(
                        f"{name!r} can't be combined with {other!r}. Remove one of them.",
                        param=name,
                    )


def read_format(
    given: Mapping[str, Any],
    path: str,
    *,
    nested: str | None,
    open_objects: bool,
    named: bool = True,
) -> Tool | None:
    """A format of the type text, json_object or json_schema. None for text.

    `nested`: the member that has the schema and its name, if they are not beside `type`. `named`:
    whether the name is required."""
    outer = Fields(given, path)
    kind = outer.text("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return content_format(ANY_OBJECT, param=path)
    if kind != "json_schema":
        raise UnsupportedParameter(
            f"A {path!r} of the type {kind!r} is not supported. Use the type text, json_object or "
            "json_schema.",
            param=f"{path}.type",
        )
    fields = outer
    if nested is not None:
        inner = outer.mapping(nested)
        if inner is None:
            raise outer.wrong(nested, "an object with a name and a schema")
        fields = Fields(inner, outer.path(nested))
    name = fields.text("name")
    fields.flag("strict")  # every schema is enforced, strict or not
    schema = fields.mapping("schema")
    if schema is None:
        raise fields.wrong("schema", "a JSON Schema")
    if named and not name:
        raise fields.wrong("name", "a name, which OpenAI's API requires")
    return content_format(schema, param=fields.path("schema"), open_objects=open_objects)


def read_structured_outputs(given: Mapping[str, Any], *, open_objects: bool) -> Tool | None:
    """vLLM's `structured_outputs` with one of json, json_object, choice and regex."""
    given = {name: value for name, value in given.items() if value is not None}
    fields = Fields(given, STRUCTURED_OUTPUTS)
    for name in given:
        if name not in ("json", "json_object", "choice", "regex"):
            path = fields.path(name)
            raise UnsupportedParameter(
                f"{path!r} is not supported. Use json, json_object, choice or regex.", param=path
            )
    if len(given) > 1:
        raise InvalidRequest(
            f"{STRUCTURED_OUTPUTS!r} must have one member, but has {len(given)}: "
            f"{', '.join(given)}.",
            param=fields.path(next(iter(given))),
        )
    if "choice" in given:
        return text_format("choice", _choices(fields))
    if (regex := fields.text("regex")) is not None:
        if not 0 < len(regex) <= MAX_REGEX:
            raise fields.wrong("regex", f"a pattern of 1 to {MAX_REGEX} characters")
        return text_format("regex", regex)
    if fields.flag("json_object"):
        return content_format(ANY_OBJECT, param=STRUCTURED_OUTPUTS)
    if "json" not in given:
        return None
    return content_format(_schema(fields), param=fields.path("json"), open_objects=open_objects)


def _choices(fields: Fields) -> list[str]:
    texts = fields.items("choice") or []
    if not 0 < len(texts) <= MAX_CHOICES or not all(
        isinstance(text, str) and 0 < len(text) <= MAX_REGEX for text in texts
    ):
        raise fields.wrong(
            "choice", f"an array of 1 to {MAX_CHOICES} strings of 1 to {MAX_REGEX} characters"
        )
    return list(dict.fromkeys(texts))


def _schema(fields: Fields) -> dict[str, Any]:
    schema = fields.values["json"]
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError):
            schema = None
    if not isinstance(schema, dict):
        raise fields.wrong("json", "a JSON Schema, as an object or as a string of JSON")
    return schema
