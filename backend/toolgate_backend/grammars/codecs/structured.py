"""The rules of a structure, as far as they are common to all codecs that write nested values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

from toolgate_core.dialects.marks import Marks
from toolgate_core.pointer import escape

from ...errors import GrammarRefused, NotRepresentable
from . import nodes
from .rules import MAX_UNORDERED, GrammarRules, encoded_literal, quoted


def without_unwritable(
    structure: nodes.Structure,
    has_text: Callable[[nodes.Node], bool],
    can_be_key: Callable[[str], bool],
) -> nodes.Structure:
    """Return the structure without values that a codec cannot write. `has_text` decides for `Text`,
    `Number`, and `Values` of one value. Recursion without end has no text either."""
    cut = {
        name: _Writable(has_text, can_be_key, {}).without(structure.definitions[name])
        for name in structure.definitions
    }
    finite: set[str] = set()
    while True:
        more = {name for name, node in cut.items() if _is_finite(node, finite)}
        if more == finite:
            break
        finite = more
    kept = {name: name in finite for name in cut}
    writable = _Writable(has_text, can_be_key, kept)
    definitions = {name: writable.without(structure.definitions[name]) for name in finite}
    return nodes.Structure(writable.without(structure.root), definitions)


def _is_finite(node: nodes.Node, finite: set[str]) -> bool:
    """Return whether there is a value that refers to no definition outside `finite`."""
    match node:
        case nodes.Reference(name):
            return name in finite
        case nodes.Union(options):
            return any(_is_finite(each, finite) for each in options)
        case nodes.Object(members, further, _, least):
            known = {each.name: _is_finite(each.value, finite) for each in members}
            more = further is not None and _is_finite(further.value, finite)
            has_required = all(known[each.name] for each in members if each.required)
            return has_required and (not least or more or any(known.values()))
        case nodes.Array(first, further, least):
            count = min(len(first), least)
            needed = [_is_finite(each, finite) for each in first[:count]]
            return all(needed) and (least <= len(first) or _is_finite(further, finite))
        case _:
            return True


@dataclass
class _Writable:
    has_text: Callable[[nodes.Node], bool]
    can_be_key: Callable[[str], bool]
    definitions: dict[str, bool]
    """By name: whether a definition has a value; True for those that are not listed."""

    def without(self, node: nodes.Node) -> nodes.Node:
        match node:
            case nodes.Reference(name):
                return node if self.definitions.get(name, True) else nodes.NOTHING
            case nodes.Values(values):
                kept = [each for each in values if self.has_text(replace(node, values=(each,)))]
                return replace(node, values=tuple(kept)) if kept else nodes.NOTHING
            case nodes.Union(options):
                ways = [self.without(each) for each in options]
                return nodes.Union(tuple(each for each in ways if not nodes.is_nothing(each)))
            case nodes.Object():
                return self._object(node)
            case nodes.Array():
                return self._array(node)
            case _:
                return node if self.has_text(node) else nodes.NOTHING

    def _object(self, node: nodes.Object) -> nodes.Node:
        members = []
        for member in node.members:
            value = self.without(member.value) if self.can_be_key(member.name) else nodes.NOTHING
            if not nodes.is_nothing(value):
                members.append(replace(member, value=value))
            elif member.required:
                return nodes.NOTHING
        further = node.further
        if further is not None:
            value = self.without(further.value)
            further = None if nodes.is_nothing(value) else replace(further, value=value)
        if further is None and len(members) < node.least:
            return nodes.NOTHING
        return replace(node, members=tuple(members), further=further)

    def _array(self, node: nodes.Array) -> nodes.Node:
        first: list[nodes.Node] = []
        most = node.most
        further = self.without(node.further)
        for item in node.first:
            value = self.without(item)
            if nodes.is_nothing(value):
                most = min(len(first), len(first) if most is None else most)
                further = nodes.NOTHING
                break
            first.append(value)
        if nodes.is_nothing(further):
            most = len(first) if most is None else min(most, len(first))
        if most is not None and most < node.least:
            return nodes.NOTHING
        return nodes.Array(tuple(first), further, node.least, most)


class StructuredGrammar(ABC):
    """Makes the rules of a tool's arguments. The arguments come in any order, the members of other
    objects in the order of the schema."""

    separator = ", "
    """Text between two members, and between two items."""
    options: ClassVar[Mapping[str, Any]] = {"whitespace_flexible": False}
    """llguidance's options for values that are JSON."""

    def __init__(
        self, codec: Any, schema: dict[str, Any], marks: Marks, typed_by: Mapping[str, Any]
    ) -> None:
        """`codec`: that of the class."""
        schema = nodes.without_root_references(_with_declared(schema, typed_by))
        self.rules = GrammarRules()
        self._codec = codec
        self._marks = marks
        self._typed_by = typed_by
        self._definitions = schema.get("$defs", {})
        whole = self.structure(schema)
        objects = [each for each in whole.options(whole.root) if isinstance(each, nodes.Object)]
        root = nodes.Union(tuple(self._with_writable_names(each) for each in objects))
        self._structure = self._writable(nodes.Structure(root, whole.definitions))
        options = self._structure.options(self._structure.root)
        if not options:
            self._refuse(objects, whole)
        self._references = {
            name: f"definition_{at}" for at, name in enumerate(self._structure.definitions)
        }
        ways = [
            self.outermost(self._arguments(each))
            for each in options
            if isinstance(each, nodes.Object)
        ]
        self.rules.define("arguments", " | ".join(ways))
        for name, node in self._structure.definitions.items():
            self.rules.define(self._references[name], self.value(node))

    def _writable(self, whole: nodes.Structure) -> nodes.Structure:
        return without_unwritable(whole, self.has_text, self.can_be_key)

    def _with_writable_names(self, node: nodes.Object) -> nodes.Object:
        members = [
            each if self.can_be_argument(each.name) else replace(each, value=nodes.NOTHING)
            for each in node.members
        ]
        return replace(node, members=tuple(members))

    def _refuse(self, objects: Sequence[nodes.Object], whole: nodes.Structure) -> NoReturn:
        """Raise GrammarRefused with the required argument that cannot be written."""
        for node in objects:
            for member in node.members:
                if not member.required:
                    continue
                pointer = f"/properties/{escape(member.name)}"
                if not self.can_be_argument(member.name):
                    reason = f"the model's form of calls has no text for {member.name[:60]!r}"
                    raise NotRepresentable(reason, pointer)
                alone = self._writable(nodes.Structure(member.value, whole.definitions))
                if nodes.is_nothing(alone.root):
                    reason = "the model's form of calls has no text for any value"
                    raise NotRepresentable(reason, pointer)
        raise GrammarRefused("no object satisfies it", "")

    # --- what differs between codecs; all results are expressions of Lark ---

    def structure(self, schema: dict[str, Any]) -> nodes.Structure:
        return nodes.structure_of(schema)

    @abstractmethod
    def has_text(self, node: nodes.Node) -> bool:
        """Return whether a `Text`, a `Number`, or `Values` of one value can be written."""

    @abstractmethod
    def can_be_key(self, name: str) -> bool:
        """Return whether an object that is a value can have a member of this name."""

    def can_be_argument(self, name: str) -> bool:
        return self.can_be_key(name)

    def text(self, node: nodes.Text) -> str:
        raise NotImplementedError

    def literal(self, value: Any) -> str:
        """Return a JSON value."""
        raise NotImplementedError

    @abstractmethod
    def container(self, node: nodes.Object | nodes.Array) -> str: ...

    @abstractmethod
    def member(self, name: str, value: str) -> str: ...

    def further_member(self, names: nodes.FurtherMembers, value: str) -> str | None:
        """Return an undeclared member; None if no name can be written."""
        raise NotImplementedError

    def argument(self, name: str, value: str) -> str:
        """Return a member of the outermost object."""
        return self.member(name, value)

    def further_argument(self, names: nodes.FurtherMembers, value: str) -> str | None:
        """Return an undeclared member of the outermost object; None if no name can be written."""
        return self.further_member(names, value)

    def item(self, value: str) -> str:
        """Return an item of an array."""
        return value

    def outermost(self, arguments: str) -> str:
        """Return the text of all arguments."""
        return arguments

    # --- values ---

    def value(self, node: nodes.Node) -> str:
        match node:
            case nodes.Reference(name):
                return self._references[name]
            case nodes.Union(options):
                return self.one_of([self.value(each) for each in options])
            case nodes.Values(values):
                return self.one_of([self.literal(each) for each in values])
            case nodes.Text():
                return self.text(node)
            case nodes.Number(schema):
                return self.json(schema)
            case nodes.Object() | nodes.Array():
                return self.container(node)

    def one_of(self, ways: Sequence[str]) -> str:
        texts = list(dict.fromkeys(ways))
        return texts[0] if len(texts) == 1 else self.rules.add("value", " | ".join(texts))

    def json(self, schema: dict[str, Any]) -> str:
        return self.rules.json(schema, self._definitions, self.options)

    def literal_text(self, text: str) -> str:
        """Return a text of the codec that can contain its marks."""
        return encoded_literal(self._marks.encode(text), self._marks)

    # --- sequences ---

    def members(self, node: nodes.Object) -> str:
        """Return the members of an object in order."""
        written = [self.member(each.name, self.value(each.value)) for each in node.members]
        return self._ordered(node, written, self._further_way(node, self.further_member))

    def _further_way(
        self, node: nodes.Object, write: Callable[[nodes.FurtherMembers, str], str | None]
    ) -> str | None:
        """Return a member that is not declared; None if there is none."""
        further = node.further
        return None if further is None else write(further.names, self.value(further.value))

    def _ordered(self, node: nodes.Object, written: Sequence[str], further: str | None) -> str:
        """Return the members in order. `first` is the rule of those from one on, `after` the same
        behind others, with a separator before each."""
        if node.least > 1 or node.most is not None:
            raise GrammarRefused("the number of members in order", "")
        after, first = '""', "" if node.least else '""'
        if further is not None:
            after = self.rules.add("further", f"({self._separated(True, further)})*")
            ways = [f"{further} {after}", *filter(None, [first])]
            first = self.rules.add("further", " | ".join(ways))
        for member, member_node in zip(reversed(written), reversed(node.members), strict=True):
            begun, going_on = [f"{member} {after}"], [f"{self._separated(True, member)} {after}"]
            if not member_node.required:
                begun, going_on = [*begun, *filter(None, [first])], [*going_on, after]
            first = self.rules.add("members", " | ".join(begun))
            after = self.rules.add("members", " | ".join(going_on))
        if not first:
            raise GrammarRefused("no object satisfies it", "")
        return first

    def items(self, node: nodes.Array) -> str:
        """Return the items of an array, which may be none."""
        first = [self.item(self.value(each)) for each in node.first]
        further = None if nodes.is_nothing(node.further) else self.item(self.value(node.further))
        most = node.most
        count = len(first)
        rest = '""'
        if further is not None and (most is None or most > count):
            least = max(0, node.least - count)
            if not first:
                return self.rules.repeated(further, self._between, node.least, most)
            upper = "" if most is None else most - count
            rest = f"({self._separated(True, further)}){{{least},{upper}}}"
        for at in range(min(count, count if most is None else most) - 1, -1, -1):
            one = f"{self._separated(at > 0, first[at])} {rest}"
            rest = self.rules.add("items", one if at < node.least else f'{one} | ""')
        return rest

    @property
    def _between(self) -> str:
        return quoted(self.separator) if self.separator else ""

    def _separated(self, follows: bool, text: str) -> str:
        return f"{self._between} {text}" if follows and self.separator else text

    # --- the outermost object ---

    def _arguments(self, node: nodes.Object) -> str:
        written = [self.argument(each.name, self.value(each.value)) for each in node.members]
        further = self._further_way(node, self.further_argument)
        required = [each.required for each in node.members]
        if not written or len(written) > MAX_UNORDERED:
            return self._ordered(node, written, further)
        members = [*zip(written, required, strict=True)]
        counts = (node.least, node.most)
        return self.rules.any_order(members, further, self._between, counts)


def _with_declared(schema: dict[str, Any], typed_by: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose properties are left to validation, with their names."""
    if {"properties", "anyOf", "$ref", "enum", "const"} & schema.keys():
        return schema
    if not typed_by.get("properties"):
        return schema
    declared: dict[str, Any] = {"properties": dict.fromkeys(typed_by["properties"], True)}
    if "required" in typed_by:
        declared["required"] = typed_by["required"]
    known = set(typed_by.get("required", ())) <= declared["properties"].keys()
    if known and not (typed_by.get("additionalProperties") or "patternProperties" in typed_by):
        declared["additionalProperties"] = False
    return schema | declared
