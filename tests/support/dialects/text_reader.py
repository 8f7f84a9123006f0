"""Reads the calls in the complete text of a turn: an independent check of the segmenter.

It has the texts of the dialect in common with the segmenter, and nothing else: it searches the
whole text with regular expressions, and reads arguments with `json`, `ast` and searches for the
next closing text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolgate_core.dialects import dialect as forms
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
ALL_KINDS = {kind for kinds in JSON_KINDS.values() for kind in kinds}


class NotRead(Exception):
    """The text is not a turn of the dialect."""


@dataclass(frozen=True)
class Turn:
    calls: list[Call]
    ids: list[str]
    """Those of the calls, in a form that has some."""
    end: int
    """Where the text of the calls ends."""


def calls_of(text: str, dialect: Dialect, schemas: Mapping[str, Schema]) -> list[Call]:
    """The calls of a turn without content. `schemas`: by tool. Raises NotRead."""
    return read_turn(text, dialect, schemas).calls


def read_turn(text: str, dialect: Dialect, schemas: Mapping[str, Schema]) -> Turn:
    calls = dialect.calls
    assert calls is not None
    at = _after_reasoning(text, dialect)
    if calls.begin:
        at = _after(text, calls.begin, at)
    head, tail = _patterns(calls)
    found: list[Call] = []
    ids: list[str] = []
    while (match := head.match(text, at) if found else head.search(text, at)) is not None:
        name = match["name"]
        arguments, at = arguments_of(text, calls.codec, schemas.get(name, {}), match.end())
        rest = tail.match(text, at)
        if rest is None:
            raise NotRead(f"no end of the call at {at}")
        found.append((name, arguments))
        ids += [each["id"] for each in (match, rest) if "id" in each.re.groupindex]
        at = rest.end()
        if calls.separator and head.match(text, at + len(calls.separator)) is not None:
            at = _closed(text, at, calls.separator)
    if calls.end and not text.startswith(calls.end, at):
        raise NotRead(f"no end of the calls at {at}")
    return Turn(found, ids, at + len(calls.end))


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


def arguments_of(text: str, codec: object, schema: Schema, at: int = 0) -> Value:
    """The arguments that begin at a place. `schema`: that of the tool's parameters. Raises
    NotRead."""
    match codec:
        case forms.Json():
            return _json(text, at)
        case forms.FlatTags():
            return _tagged(text, at, codec, Place(schema, [{"type": "object", **schema}]))
        case forms.NestedTags():
            return _members(text, at, codec, Place(schema, [{"type": "object", **schema}]))
        case forms.GemmaValues(braces=True):
            return _gemma(text, at, codec.quote)
        case forms.GemmaValues():  # they end before the brace of the call, or with the text
            value, end = _gemma(f"{{{text[at:]}}}", 0, codec.quote)
            return value, at + end - len("{}")
        case forms.Pythonic():
            return _pythonic(text, at)
    raise AssertionError(codec)


@dataclass(frozen=True)
class Place:
    """What the schema of a tool says of a value."""

    root: Schema
    given: list[Any]
    """Schemas, of which the value satisfies some."""

    @property
    def options(self) -> list[Schema]:
        return [*self._options(self.given)]

    def _options(self, given: list[Any]) -> Iterator[Schema]:
        for each in given:
            if not isinstance(each, Mapping):
                continue
            yield each
            if "$ref" in each:
                name = each["$ref"].rpartition("/")[2]
                target = {"type": "object", **self.root}
                yield from self._options([self.root["$defs"][name] if name != "#" else target])
            for keyword in ("anyOf", "oneOf", "allOf"):
                yield from self._options(each.get(keyword, []))

    @property
    def kinds(self) -> set[str]:
        """The types that the value may have."""
        found: set[str] = set()
        for each in self.options:
            kind = each.get("type", [])
            found |= {kind} if isinstance(kind, str) else {*kind}
            values = [*each.get("enum", ()), *([each["const"]] if "const" in each else ())]
            found |= {JSON_KINDS[type(value)][0] for value in values}
        return found or ALL_KINDS

    def member(self, name: str) -> Place:
        declared = [each["properties"] for each in self.options if "properties" in each]
        found = [properties[name] for properties in declared if name in properties]
        more = [each.get("additionalProperties") for each in self.options]
        return Place(self.root, found or more)

    def item(self, at: int) -> Place:
        firsts = [(each.get("prefixItems", []), each.get("items")) for each in self.options]
        found = [first[at] if at < len(first) else rest for first, rest in firsts]
        return Place(self.root, found)


def _json(text: str, at: int) -> Value:
    try:
        return json.JSONDecoder().raw_decode(text, at)
    except ValueError as error:
        raise NotRead(str(error)) from error


def _is_of(value: Any, kinds: set[str]) -> bool:
    return any(kind in kinds for kind in JSON_KINDS[type(value)])


def _tagged(text: str, at: int, codec: forms.FlatTags, place: Place) -> Value:
    types = "|".join(re.escape(kind) for _, kind in codec.types)
    middle = re.escape(codec.middle).replace(r"\{type\}", f"(?P<kind>{types})")
    tag = re.compile(rf"{re.escape(codec.begin)}(?P<key>(?s:.*?)){middle}")
    made: dict[str, Any] = {}
    while (match := tag.match(text, at)) is not None:
        key = match["key"]
        for plain, written in reversed(codec.escapes):
            key = key.replace(written, plain)
        kinds = place.member(key).kinds
        if codec.types:
            kinds = {kind for kind, written in codec.types if written == match["kind"]}
        made[key], at = _tagged_value(text, match.end(), codec, kinds)
        at = _closed(text, at, codec.end)
    return made, at


def _tagged_value(text: str, at: int, codec: forms.FlatTags, kinds: set[str]) -> Value:
    """JSON of a type that is no text, or raw text."""
    if "string" not in kinds:
        return _json(text, at)
    try:
        value, end = _json(text, at)
    except NotRead:
        value = end = None
    # JSON may contain the text that closes an argument in its own strings.
    if end is not None and _is_of(value, kinds - {"string"}) and text.startswith(codec.end, end):
        return value, end
    if codec.cdata and text.startswith("<![CDATA[", at):
        end = text.find("]]>", at)
        return text[at + len("<![CDATA[") : end], end + len("]]>")
    end = _after(text, codec.close, at) - len(codec.close) - codec.end.index(codec.close)
    return text[at:end], end


def _members(text: str, at: int, codec: forms.NestedTags, place: Place) -> Value:
    tag = re.compile(rf"{re.escape(codec.namespace)}<(?P<key>[^/>][^>]*)>")
    made: dict[str, Any] = {}
    while (match := tag.match(text, at)) is not None:
        key = match["key"]
        made[key], at = _nested(text, match.end(), codec, place.member(key))
        at = _closed(text, at, f"{codec.namespace}</{key}>")
    return made, at


def _nested(text: str, at: int, codec: forms.NestedTags, place: Place) -> Value:
    kinds = place.kinds
    item = f"{codec.namespace}<{codec.item}>"
    if "array" in kinds and (kinds == {"array"} or text.startswith(item, at)):
        items: list[Any] = []
        while text.startswith(item, at):
            value, at = _nested(text, at + len(item), codec, place.item(len(items)))
            items.append(value)
            at = _closed(text, at, f"{codec.namespace}</{codec.item}>")
        return items, at
    begun = text.startswith(f"{codec.namespace}<", at)
    if kinds == {"object"} or (begun and not text.startswith(f"{codec.namespace}</", at)):
        return _members(text, at, codec, place)
    end = text.find(codec.namespace, at)
    if end < 0:
        raise NotRead(f"no end of the value at {at}")
    if "string" not in kinds:
        empty: Any = [] if "array" in kinds else {}
        return _json(text, at) if text[at:end] else (empty, end)
    try:
        value = json.loads(text[at:end])
    except ValueError:
        return text[at:end], end
    return value if _is_of(value, kinds - {"string"}) else text[at:end], end


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
            if text.startswith(quote, at):
                key, at = _gemma(text, at, quote)
                colon = _closed(text, at, ":")
            else:
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
    """The text up to the first parenthesis that makes it a call of Python. Keywords of Python, such
    as `from`, cannot be names of arguments there."""
    for match in re.compile(r"\)").finditer(text, at):
        written = re.sub(r"(^|, )from=", r"\1from_=", text[at : match.end()])
        try:
            call = ast.parse(f"f({written}", mode="eval").body
        except SyntaxError:
            continue
        assert isinstance(call, ast.Call)
        keywords = [(each.arg, each.value) for each in call.keywords if each.arg is not None]
        made = {"from" if name == "from_" else name: _python(value) for name, value in keywords}
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
