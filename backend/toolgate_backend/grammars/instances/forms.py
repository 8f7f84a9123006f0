"""The text of a JSON value, with the place of each part in the value, and the order of members that
a grammar gives it.

A model writes a value in its own order of members, with its own white space and its own notation of
numbers. The forms here are those that a grammar may or may not allow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import jsonschema_rs

from toolgate_core.pointer import escape
from toolgate_core.schema.strings import matches
from toolgate_core.schema.walk import at_pointer, pointer_of_ref


@dataclass(frozen=True)
class Form:
    """How a value is written."""

    separators: tuple[str, str] = (", ", ": ")
    plain_numbers: bool = False
    """Numbers without exponents and without `.0`."""
    schema_order: bool = False


@dataclass
class Text:
    """A text and its parts: (begin, end, JSON Pointer) of each value and member name, in bytes. A
    separator is part of what follows it."""

    data: bytes = b""
    spans: list[tuple[int, int, str]] = field(default_factory=list)

    def pointer_at(self, offset: int) -> str:
        """Return the JSON Pointer of the innermost part at a byte."""
        inside = [span for span in self.spans if span[0] <= offset < span[1]]
        return min(inside, key=lambda span: span[1] - span[0])[2] if inside else ""


def written(value: Any, form: Form, schema: Any) -> Text:
    """`schema`: the schema whose order of members `schema_order` means."""
    if form.schema_order:
        value = ordered(value, schema)
    text = Text()
    parts = bytearray()
    for part in _parts(value, form, "", text, parts):
        parts += part.encode("utf-8", "surrogatepass")
    return replace(text, data=bytes(parts))


def _parts(value: Any, form: Form, pointer: str, text: Text, parts: bytearray) -> Iterator[str]:
    begin = len(parts)
    if isinstance(value, dict):
        yield "{"
        for at, (name, member) in enumerate(value.items()):
            inside = f"{pointer}/{escape(name)}"
            named = len(parts)
            if at:
                yield form.separators[0]
            yield json.dumps(name, ensure_ascii=False)
            text.spans.append((named, len(parts), inside))
            yield form.separators[1]
            yield from _parts(member, form, inside, text, parts)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for at, item in enumerate(value):
            if at:
                text.spans.append(
                    (len(parts), len(parts) + len(form.separators[0]), f"{pointer}/{at}")
                )
                yield form.separators[0]
            yield from _parts(item, form, f"{pointer}/{at}", text, parts)
        yield "]"
    else:
        yield _scalar(value, form)
    text.spans.append((begin, len(parts), pointer))


def _scalar(value: Any, form: Form) -> str:
    if isinstance(value, float) and form.plain_numbers:
        return format(Decimal(repr(value)).normalize(), "f")
    return json.dumps(value, ensure_ascii=False)


def ordered(value: Any, schema: Any) -> Any:
    """`value` with its members in the order of the schema that the engine was given."""
    return _ordered(value, [schema], schema)


def nodes_at(value: Any, schema: Any, steps: list[str]) -> list[dict[str, Any]]:
    """Return the subschemas without combinations that bear on the part of a value at `steps`, the
    parts of a JSON Pointer."""
    schemas = [schema]
    for step in steps:
        nodes = [node for each in schemas for node in _applying(value, each, schema)]
        if isinstance(value, list):
            value, schemas = value[int(step)], _of_item(int(step), nodes)
        else:
            value, schemas = value[step], _of_member(step, nodes)
    return [node for each in schemas for node in _applying(value, each, schema)]


def _ordered(value: Any, schemas: list[Any], root: Any) -> Any:
    nodes = [node for schema in schemas for node in _applying(value, schema, root)]
    if isinstance(value, dict):
        for node in nodes:
            for listed in node.get("enum", [node.get("const")]):
                if isinstance(listed, dict) and jsonschema_rs.is_valid({"const": listed}, value):
                    return listed
    if isinstance(value, dict):
        names = [name for node in nodes for name in node.get("properties", ())]
        names += [name for node in nodes for name in node.get("required", ())]
        names = [name for name in dict.fromkeys([*names, *value]) if name in value]
        return {n: _ordered(value[n], _of_member(n, nodes), root) for n in names}
    if isinstance(value, list):
        return [_ordered(v, _of_item(at, nodes), root) for at, v in enumerate(value)]
    return value


def _applying(value: Any, schema: Any, root: Any) -> Iterator[dict[str, Any]]:
    """Yield the subschemas without combinations that bear on a value."""
    pending, seen = [schema], set()
    while pending:
        node = pending.pop(0)
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        target = pointer_of_ref(node.get("$ref"))
        if target is not None:
            pending.append(at_pointer(root, target))
        pending.extend(node.get("allOf", ()))
        pending.extend(b for b in node.get("anyOf", ()) if _valid(value, b, root))


def _valid(value: Any, branch: Any, root: Any) -> bool:
    whole = {"$defs": root.get("$defs", {}), "allOf": [branch]}
    try:
        return bool(jsonschema_rs.is_valid(whole, value, validate_formats=True))
    except (ValueError, jsonschema_rs.ValidationError):
        return True


def _of_member(name: str, nodes: list[dict[str, Any]]) -> list[Any]:
    found = []
    for node in nodes:
        own = [s for n, s in node.get("properties", {}).items() if n == name]
        own += [s for p, s in node.get("patternProperties", {}).items() if matches(p, name)]
        found += own or [node.get("additionalProperties", True)]
    return found


def _of_item(at: int, nodes: list[dict[str, Any]]) -> list[Any]:
    prefixes = [node.get("prefixItems", []) for node in nodes]
    return [
        prefix[at] if at < len(prefix) else node.get("items", True)
        for node, prefix in zip(nodes, prefixes, strict=True)
    ]
