"""Reads the calls in the complete text of a turn: an independent check of the segmenter.

It has the texts of the dialect in common with the segmenter, and nothing else: it searches the
whole text with regular expressions, and reads arguments with `json`, `ast` and searches for the
next closing text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from toolgate_core.dialects.codecs import GemmaValues, Json, NestedTags, Pythonic, Tagged
from toolgate_core.dialects.dialect import Calls, Dialect, Slot

Call = tuple[str, Any]
Schema = Mapping[str, Any]
Value = tuple[Any, int]
"""A value, and the position after its text."""

SLOTS = {Slot.NAME: r"(?P<name>[A-Za-z0-9_.-]+)", Slot.ID: r"(?P<id>[A-Za-z0-9_.:-]*?)"}
JSON_KINDS: dict[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}


class NotRead(Exception):
    """The text is not a turn of the dialect."""


def calls_of(text: str, dialect: Dialect, schemas: Mapping[str, Schema]) -> list[Call]:
    """The calls of a turn without content. `schemas`: by tool. Raises NotRead."""
    calls = dialect.calls
    assert calls is not None
    at = _after_reasoning(text, dialect)
    if calls.begin:
        at = _after(text, calls.begin, at)
    head, tail = _patterns(calls)
    found: list[Call] = []
    while (match := head.match(text, at) if found else head.search(text, at)) is not None:
        name = match["name"]
        arguments, at = _arguments(text, match.end(), calls.codec, schemas.get(name, {}))
        rest = tail.match(text, at)
        if rest is None:
            raise NotRead(f"no end of the call at {at}")
        found.append((name, arguments))
        at = rest.end()
        if calls.separator and head.match(text, at + len(calls.separator)) is not None:
            at = _closed(text, at, calls.separator)
    if calls.end and not text.startswith(calls.end, at):
        raise NotRead(f"no end of the calls at {at}")
    return found


def _after_reasoning(text: str, dialect: Dialect) -> int:
    """The position after the reasoning. In some families the same text ends calls."""
    reasoning, calls = dialect.reasoning, dialect.calls
    if reasoning is None or calls is None or reasoning.end not in text:
        return 0
    head, _ = _patterns(calls)
    end, first = text.index(reasoning.end) + len(reasoning.end), head.search(text)
    is_call = not calls.begin and first is not None and first.start() < end
    return 0 if is_call and reasoning.begin not in text[: first.start() if first else 0] else end


def _patterns(calls: Calls) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The text of a call before and after its arguments."""
    parts = [
        SLOTS.get(part, "") if isinstance(part, Slot) else re.escape(part) for part in calls.call
    ]
    at = calls.call.index(Slot.ARGUMENTS)
    return re.compile("".join(parts[:at])), re.compile("".join(parts[at + 1 :]))


def _arguments(text: str, at: int, codec: object, schema: Schema) -> Value:
    match codec:
        case Json():
            return _json(text, at)
        case Tagged():
            return _tagged(text, at, codec, schema)
        case NestedTags():
            return _members(text, at, codec, schema)
        case GemmaValues(braces=True):
            return _gemma(text, at, codec.quote)
        case GemmaValues():
            value, end = _gemma(f"{{{text[at:]}", 0, codec.quote)
            return value, at + end - 1
        case Pythonic():
            return _pythonic(text, at)
    raise AssertionError(codec)


def _json(text: str, at: int) -> Value:
    try:
        return json.JSONDecoder().raw_decode(text, at)
    except ValueError as error:
        raise NotRead(str(error)) from error


def _tagged(text: str, at: int, codec: Tagged, schema: Schema) -> Value:
    kinds = "|".join(re.escape(kind) for _, kind in codec.types)
    middle = re.escape(codec.middle).replace(r"\{type\}", f"(?P<kind>{kinds})")
    tag = re.compile(rf"{re.escape(codec.begin)}(?P<key>(?s:.*?)){middle}")
    made: dict[str, Any] = {}
    while (match := tag.match(text, at)) is not None:
        key = match["key"]
        for plain, written in reversed(codec.escapes):
            key = key.replace(written, plain)
        property_schema = schema.get("properties", {}).get(key, {})
        allowed = _kinds(property_schema)
        if codec.types:
            allowed = {kind for kind, written in codec.types if written == match["kind"]}
        end = _end_of_raw(text, match.end(), codec)
        if "string" not in allowed:  # JSON, which may contain the end in a string
            value, after = _json(text, match.end())
            if not text.startswith(codec.end, after):
                raise NotRead(f"no end of the argument at {after}")
            made[key], at = value, after + len(codec.end)
            continue
        if end < 0:
            raise NotRead(f"no end of the argument at {match.end()}")
        made[key] = _raw(text[match.end() : end], allowed, cdata=codec.cdata)
        at = end + len(codec.end)
    return made, at


def _end_of_raw(text: str, at: int, codec: Tagged) -> int:
    """The position of the end of a raw value; -1 if there is none. In XML, a CDATA section contains
    any text up to `]]>`."""
    if codec.cdata and text.startswith("<![CDATA[", at):
        close = text.find("]]>", at)
        return close + len("]]>") if text.startswith(codec.end, close + len("]]>")) else -1
    return text.find(codec.end, at)


def _raw(text: str, allowed: set[str], *, cdata: bool = False) -> Any:
    """A value whose schema allows a string: JSON of another allowed type, or raw text."""
    if cdata and text.startswith("<![CDATA["):
        return text.removeprefix("<![CDATA[").removesuffix("]]>")
    try:
        value = json.loads(text)
    except ValueError:
        return text
    is_other = not isinstance(value, str) and any(k in allowed for k in JSON_KINDS[type(value)])
    return value if is_other else text


def _kinds(schema: Schema) -> set[str]:
    kind = schema.get("type")
    if kind is not None:
        return set(kind) if isinstance(kind, list) else {kind}
    if "enum" in schema:
        return {JSON_KINDS[type(value)][0] for value in schema["enum"]}
    return {"string", "number", "boolean", "array", "object", "null"}


def _members(text: str, at: int, codec: NestedTags, schema: Schema) -> Value:
    tag = re.compile(rf"{re.escape(codec.namespace)}<(?P<key>[^/>][^>]*)>")
    made: dict[str, Any] = {}
    while (match := tag.match(text, at)) is not None:
        key = match["key"]
        found = schema.get("properties", {}).get(key, {})
        made[key], at = _nested(text, match.end(), codec, found)
        at = _closed(text, at, f"{codec.namespace}</{key}>")
    return made, at


def _nested(text: str, at: int, codec: NestedTags, schema: Schema) -> Value:
    kinds = _kinds(schema)
    item = f"{codec.namespace}<{codec.item}>"
    if "array" in kinds and (kinds == {"array"} or text.startswith(item, at)):
        items: list[Any] = []
        while text.startswith(item, at):
            value, at = _nested(text, at + len(item), codec, schema.get("items", {}))
            items.append(value)
            at = _closed(text, at, f"{codec.namespace}</{codec.item}>")
        return items, at
    if kinds == {"object"}:
        return _members(text, at, codec, schema)
    end = text.find(codec.namespace, at)
    if end < 0:
        raise NotRead(f"no end of the value at {at}")
    if "string" in kinds:
        return _raw(text[at:end], kinds), end
    return _json(text, at)


def _closed(text: str, at: int, close: str) -> int:
    if not text.startswith(close, at):
        raise NotRead(f"no {close!r} at {at}")
    return at + len(close)


def _gemma(text: str, at: int, quote: str) -> Value:
    if text.startswith(quote, at):
        end = text.find(quote, at + len(quote))
        if end < 0:
            raise NotRead(f"no end of the string at {at}")
        return text[at + len(quote) : end], end + len(quote)
    if text.startswith("{", at):
        made: dict[str, Any] = {}
        at += 1
        while not text.startswith("}", at):
            colon = _after(text, ":", at)
            key = text[at : colon - 1]
            made[key], at = _gemma(text, colon, quote)
            at += text.startswith(",", at)
        return made, at + 1
    if text.startswith("[", at):
        items: list[Any] = []
        at += 1
        while not text.startswith("]", at):
            value, at = _gemma(text, at, quote)
            items.append(value)
            at += text.startswith(",", at)
        return items, at + 1
    return _json(text, at)


def _pythonic(text: str, at: int) -> Value:
    """The text up to the first parenthesis that makes it a call of Python."""
    for match in re.compile(r"\)").finditer(text, at):
        try:
            call = ast.parse(f"f({text[at : match.end()]}", mode="eval").body
        except SyntaxError:
            continue
        assert isinstance(call, ast.Call)
        made = {each.arg: _python(each.value) for each in call.keywords if each.arg is not None}
        return made, match.start()
    raise NotRead(f"no call of Python at {at}")


def _python(node: ast.expr) -> Any:
    match node:
        case ast.Name("true" | "false" | "null" as name):
            return json.loads(name)
        case ast.Dict(keys, values):
            return {_python(k): _python(v) for k, v in zip(keys, values, strict=True) if k}
        case ast.List(items):
            return [_python(item) for item in items]
    return ast.literal_eval(node)


def _after(text: str, wanted: str, at: int) -> int:
    found = text.find(wanted, at)
    if found < 0:
        raise NotRead(f"no {wanted!r} after {at}")
    return found + len(wanted)
