"""The OpenAPI document of our own API, from the parameter tables and the models of the routes."""

from __future__ import annotations

import re
from typing import Any

import orjson
from pydantic import BaseModel

from ..api.shared.collection_types import Array, JsonObject, Object, Texts, TokenIds
from ..api.shared.parameter import Parameter, Table, shown_default
from ..api.shared.value_types import Choice, Flag, Integer, Number, Text, ValueType
from .operations import OPERATIONS, TAGS, Operation

REFERENCE = "#/components/schemas/{model}"
DOCUMENTATION_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
"""Links of the notes, which lead to pages of the documentation."""
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}


def document() -> bytes:
    """The document as JSON."""
    models: dict[str, Any] = {"Error": ERROR}
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation, models)
    built = {
        "openapi": "3.1.0",
        "info": {
            "title": "Toolgate",
            "version": "1",
            "description": "Tool calls that cannot be malformed: OpenAI's and Anthropic's APIs, "
            "and the routes of the administrator.",
        },
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": models,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The master key, or a virtual key.",
                },
                "master": {"type": "http", "scheme": "bearer", "description": "The master key."},
            },
        },
    }
    return orjson.dumps(built, option=orjson.OPT_INDENT_2)


def _operation(operation: Operation, models: dict[str, Any]) -> dict[str, Any]:
    built: dict[str, Any] = {
        "operationId": f"{operation.method} {operation.path}",
        "tags": [operation.tag],
        "summary": operation.summary,
        "security": _security(operation),
        "responses": {"200": _response(operation, models)},
    }
    if operation.access != "none":
        error = {"application/json": {"schema": {"$ref": REFERENCE.format(model="Error")}}}
        built["responses"]["default"] = {"description": "An error.", "content": error}
    if names := re.findall(r"{(\w+)}", operation.path):
        built["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ]
    if operation.body is not None:
        content = {"application/json": {"schema": _body(operation, models)}}
        built["requestBody"] = {"required": True, "content": content}
    return built


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    if operation.access == "none":
        return []
    return [{"master" if operation.access == "master key" else "key": []}]


def _response(operation: Operation, models: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if operation.response is not None:
        schema = _model(operation.response, models, mode="serialization")
    elif operation.media_type.startswith("text/"):
        schema = {"type": "string"}
    content: dict[str, Any] = {operation.media_type: {"schema": schema}}
    if operation.events:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": "The response.", "content": content}


def _body(operation: Operation, models: dict[str, Any]) -> dict[str, Any]:
    if isinstance(operation.body, type):
        return _model(operation.body, models, mode="validation")
    assert operation.body is not None
    return table_schema(operation.body, operation.required)


def _model(model: type[BaseModel], models: dict[str, Any], *, mode: Any) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template=REFERENCE, mode=mode)
    models |= schema.pop("$defs", {})
    models[model.__name__] = schema
    return {"$ref": REFERENCE.format(model=model.__name__)}


def table_schema(table: Table, required: tuple[str, ...]) -> dict[str, Any]:
    """The schema of a body that a parameter table describes. It has the parameters whose values are
    checked, and those of which only a default is accepted."""
    return {
        "type": "object",
        "required": list(required),
        "additionalProperties": False,
        "properties": {
            row.name: _row_schema(row)
            for row in table.values()
            if row.type is not None or row.support == "default only"
        },
    }


def _row_schema(row: Parameter) -> dict[str, Any]:
    note = DOCUMENTATION_LINK.sub(r"\1", row.note)
    if row.type is None:
        accepted = " or ".join(map(shown_default, row.defaults))
        return {"description": f"Only {accepted}. {note}", "x-origin": row.origin}
    expected = row.type.expected
    about = f"{expected[0].upper()}{expected[1:]}. {note}"
    return {**_type_schema(row.type), "description": about, "x-origin": row.origin}


def _type_schema(kind: ValueType) -> dict[str, Any]:
    match kind:
        case Integer(minimum, maximum):
            return {"type": "integer", "minimum": minimum, "maximum": maximum}
        case Number():
            return {"type": "number"}
        case Flag():
            return {"type": "boolean"}
        case Text():
            return {"type": "string"}
        case Choice(values):
            return {"type": "string", "enum": list(values)}
        case TokenIds():
            return {"type": "array", "items": {"type": "integer"}}
        case Texts(single=False):
            return {"type": "array", "items": {"type": "string"}}
        case Array():
            return {"type": "array", "items": {}}
        case Object(members):
            inner = {name: _type_schema(each) for name, each in members.items()}
            return {"type": "object", "properties": inner}
        case JsonObject():
            return {"type": "object"}
    return {}
