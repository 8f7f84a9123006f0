"""Upgrade of one subschema from an older draft, or from OpenAPI 3.0, to 2020-12."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidTools
from .keywords import ANNOTATIONS, DEFINITIONS, SINCE

NEWEST = 2020
_DRAFTS = {
    "json-schema.org/draft-03/schema": 4,
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}


def draft_of(schema: Any) -> int | None:
    """The draft in a schema's `$schema`; None if it is missing or unknown. Such a schema is read as
    2020-12, and keywords of older drafts keep their old meaning."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(named, str):
        return None
    return _DRAFTS.get(named.rstrip("#").split("://")[-1])


def upgrade(schema: dict[str, Any], draft: int | None, *, param: str | None = None) -> None:
    """Upgrade one subschema in place, without the schemas inside it. Raises InvalidTools if a new
    keyword can't be combined with the present ones."""
    if draft is not None:
        for keyword in [k for k in schema if SINCE.get(k, 0) > draft]:
            del schema[keyword]
    if draft is not None and draft <= 7 and "$ref" in schema:
        # "All other properties in a "$ref" object MUST be ignored" (draft 7, core §8.3).
        for keyword in schema.keys() - {"$ref", *DEFINITIONS, *ANNOTATIONS}:
            del schema[keyword]
    _bounds(schema)
    _items(schema, draft)
    _dependencies(schema, param)
    if draft is None:
        _nullable(schema)


def _nullable(schema: dict[str, Any]) -> None:
    """OpenAPI 3.0.3, schema object: `nullable` adds the type `null`. It has no effect without a
    type, and an `enum` has to list `null`."""
    types = schema.get("type")
    types = [types] if isinstance(types, str) else types
    if schema.pop("nullable", None) is True and isinstance(types, list) and "null" not in types:
        schema["type"] = [*types, "null"]


def _bounds(schema: dict[str, Any]) -> None:
    """Draft 4: `exclusiveMinimum: true` makes `minimum` exclusive."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        whether = schema.get(exclusive)
        if not isinstance(whether, bool):
            continue
        del schema[exclusive]
        if whether and bound in schema:
            schema[exclusive] = schema.pop(bound)


def _items(schema: dict[str, Any], draft: int | None) -> None:
    """Before 2020-12, a list in `items` had the meaning of `prefixItems`."""
    rest = schema.pop("additionalItems", None)
    if draft != NEWEST and isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        if rest is not None:
            schema["items"] = rest


def _dependencies(schema: dict[str, Any], param: str | None) -> None:
    """Before 2019-09, `dependencies` combined `dependentRequired` and `dependentSchemas`."""
    if not isinstance(schema.get("dependencies"), dict):
        return
    added: dict[str, dict[str, Any]] = {}
    for name, needs in schema.pop("dependencies").items():
        keyword = "dependentRequired" if isinstance(needs, list) else "dependentSchemas"
        added.setdefault(keyword, {})[name] = needs
    for keyword, names in added.items():
        present = schema.get(keyword, {})
        if not isinstance(present, dict):
            raise InvalidTools(f"{keyword} in the schema must be an object.", param=param)
        # The order is part of grammar keys: the last name first.
        schema[keyword] = dict(reversed(names.items())) | present
