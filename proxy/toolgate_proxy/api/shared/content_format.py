"""The format of the content: JSON by a schema, or vLLM's `structured_outputs`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import Tool, text_format
from toolgate_core.tools import content_format as json_format

from ...request_fields import Fields

STRUCTURED_OUTPUTS = "structured_outputs"
RESPONSE_FORMAT = "response_format"
OF_TYPE: Mapping[str, tuple[str, ...]] = {
    "text": (),
    "json_object": ("schema",),
    "json_schema": ("json_schema", "schema"),
}
"""By type of `response_format`: the members that may have the schema."""
TEXT_FORMAT = {
    "json_schema": ("type", "name", "schema", "strict", "description"),
    "json_object": ("type",),
    "text": ("type",),
}
"""By type of `text.format`: its members."""
MAX_CHOICES = 1000
MAX_REGEX = 2000
ANY_OBJECT = {"type": "object"}

ReadFormat = Callable[[Mapping[str, Any], str, bool], Tool | None]
"""Reads a format of an API at its path, which its parameter has checked; None for text. The last
argument: `open_objects`."""


def content_format(
    values: Mapping[str, Any],
    formats: Mapping[str, Mapping[str, Any] | None],
    read: ReadFormat,
    open_objects: bool,
) -> Tool | None:
    """Return the format of the content; None for text. `formats`: those of the API, by path. Raise
    InvalidRequest, and UnsupportedParameter for more than one format."""
    present = {path: form for path, form in formats.items() if form is not None}
    structured = values.get(STRUCTURED_OUTPUTS)
    if structured is not None:
        present = {path: form for path, form in present.items() if form.get("type") != "text"}
        present[STRUCTURED_OUTPUTS] = structured
    if len(present) > 1:
        first, second, *_ = present
        problem = f"cannot be combined with {first!r}. Remove one of them."
        raise Fields({}).refusal(second, problem)
    if structured is not None:
        return read_structured_outputs(structured, open_objects)
    return next((read(form, path, open_objects) for path, form in present.items()), None)


def read_response_format(form: Mapping[str, Any], path: str, open_objects: bool) -> Tool | None:
    """Return `response_format` of chat completions. None for text. The schema is in `json_schema`,
    or beside the type, as Together, Fireworks and llama.cpp have it."""
    fields, kind = Fields(form, path), form["type"]
    for name in ("json_schema", "schema"):
        if name in form and name not in OF_TYPE[kind]:
            other = ". Use the type json_schema" if kind == "json_object" else ""
            problem = f"has no effect in a format of the type {kind!r}{other}."
            raise fields.refusal(name, problem)
    inner = form.get("json_schema")
    if inner is None:
        if kind == "json_schema" and "schema" not in form:
            raise fields.wrong("json_schema", "an object with a name and a schema")
        return read_format(form, path, open_objects, named=False)
    if "schema" in form:
        problem = "cannot be combined with 'json_schema'. Remove one of them."
        raise fields.refusal("schema", problem)
    within = {**inner, "type": "json_schema"}
    return read_format(within, fields.path("json_schema"), open_objects)


def read_text_format(form: Mapping[str, Any], path: str, open_objects: bool) -> Tool | None:
    """Return `text.format` of the Responses API. None for text."""
    Fields(form, path).check_known(TEXT_FORMAT[form["type"]])
    return read_format(form, path, open_objects)


def read_format(
    form: Mapping[str, Any], path: str, open_objects: bool, *, named: bool = True
) -> Tool | None:
    """Return a format of the type text, json_object or json_schema, with its schema beside the
    type. None for text. Every schema is enforced, strict or not. `named`: whether a schema needs a
    name."""
    fields, kind, schema = Fields(form, path), form["type"], form.get("schema")
    if kind == "text":
        return None
    if schema is None:
        if kind == "json_object":
            return json_format(ANY_OBJECT, param=path)
        raise fields.wrong("schema", "a JSON Schema")
    if named and kind == "json_schema" and not form.get("name"):
        raise fields.wrong("name", "a name, which OpenAI's API requires")
    return json_format(schema, param=fields.path("schema"), open_objects=open_objects)


def read_structured_outputs(members: Mapping[str, Any], open_objects: bool) -> Tool | None:
    """Return vLLM's `structured_outputs` with one of json, json_object, choice and regex."""
    members = {name: value for name, value in members.items() if value is not None}
    fields = Fields(members, STRUCTURED_OUTPUTS)
    for name in members:
        if name not in ("json", "json_object", "choice", "regex"):
            problem = "is not supported. Use json, json_object, choice or regex."
            raise fields.refusal(name, problem)
    if len(members) > 1:
        raise InvalidRequest(
            f"{STRUCTURED_OUTPUTS!r} must have one member, but has {len(members)}: "
            f"{', '.join(members)}.",
            param=fields.path(next(iter(members))),
        )
    if "choice" in members:
        return text_format("choice", _choices(fields), param=STRUCTURED_OUTPUTS)
    if (regex := fields.text("regex")) is not None:
        if not 0 < len(regex) <= MAX_REGEX:
            raise fields.wrong("regex", f"a pattern of 1 to {MAX_REGEX} characters")
        return text_format("regex", regex, param=STRUCTURED_OUTPUTS)
    if fields.flag("json_object"):
        return json_format(ANY_OBJECT, param=STRUCTURED_OUTPUTS)
    if "json" not in members:
        return None
    return json_format(_schema(fields), param=fields.path("json"), open_objects=open_objects)


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
