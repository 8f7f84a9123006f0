"""The part of a structure that a codec can write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .nodes import NOTHING, Array, Node, Object, Reference, Structure, Union, Values, is_nothing


def without_unwritable(
    structure: Structure,
    has_text: Callable[[Node], bool],
    can_be_key: Callable[[str], bool],
) -> Structure:
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
    return Structure(writable.without(structure.root), definitions)


def _is_finite(node: Node, finite: set[str]) -> bool:
    """Return whether there is a value that refers to no definition outside `finite`."""
    match node:
        case Reference(name):
            return name in finite
        case Union(options):
            return any(_is_finite(each, finite) for each in options)
        case Object(members, further, _, least):
            known = {each.name: _is_finite(each.value, finite) for each in members}
            more = further is not None and _is_finite(further.value, finite)
            has_required = all(known[each.name] for each in members if each.required)
            return has_required and (not least or more or any(known.values()))
        case Array(first, further, least):
            count = min(len(first), least)
            needed = [_is_finite(each, finite) for each in first[:count]]
            return all(needed) and (least <= len(first) or _is_finite(further, finite))
        case _:
            return True


@dataclass
class _Writable:
    has_text: Callable[[Node], bool]
    can_be_key: Callable[[str], bool]
    definitions: dict[str, bool]
    """By name: whether a definition has a value; True for those that are not listed."""

    def without(self, node: Node) -> Node:
        match node:
            case Reference(name):
                return node if self.definitions.get(name, True) else NOTHING
            case Values(values):
                kept = [each for each in values if self.has_text(replace(node, values=(each,)))]
                return replace(node, values=tuple(kept)) if kept else NOTHING
            case Union(options):
                found = [self.without(each) for each in options]
                return Union(tuple(each for each in found if not is_nothing(each)))
            case Object():
                return self._object(node)
            case Array():
                return self._array(node)
            case _:
                return node if self.has_text(node) else NOTHING

    def _object(self, node: Object) -> Node:
        members = []
        for each in node.members:
            value = self.without(each.value) if self.can_be_key(each.name) else NOTHING
            if not is_nothing(value):
                members.append(replace(each, value=value))
            elif each.required:
                return NOTHING
        further = node.further
        if further is not None:
            value = self.without(further.value)
            further = None if is_nothing(value) else replace(further, value=value)
        if further is None and len(members) < node.least:
            return NOTHING
        return replace(node, members=tuple(members), further=further)

    def _array(self, node: Array) -> Node:
        first: list[Node] = []
        most = node.most
        further = self.without(node.further)
        for each in node.first:
            value = self.without(each)
            if is_nothing(value):
                most = min(len(first), len(first) if most is None else most)
                further = NOTHING
                break
            first.append(value)
        if is_nothing(further):
            most = len(first) if most is None else min(most, len(first))
        if most is not None and most < node.least:
            return NOTHING
        return Array(tuple(first), further, node.least, most)
