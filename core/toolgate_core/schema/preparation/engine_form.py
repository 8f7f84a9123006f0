"""A schema rewritten in the keywords that grammar engines support.

The canonical form of jsonschema-rs merges, distributes and negates. It can still have keywords that
no engine supports. Where other keywords are equivalent to them, they are replaced here. The others
stay unchanged, and `unsupported` finds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..formats import BUILT_IN, CHECKED, LENGTHS, PATTERNS
from ..keywords import ASSERTIONS, DEFINITIONS
from ..regular.characters import Ranges, has, other_than, ranges_of, union
from ..regular.languages import matching, plain_pattern, plain_patterns
from ..regular.reading import parse
from ..regular.syntax import Alternatives, Characters, Group, Look, Part, Repeated, Sequence
from ..regular.text import text_of
from ..regular.whole import has_inner_anchor, whole
from ..strings import is_maskable
from ..walk import deep_copy, find_references, move_targets_to_defs, reachable, subschemas

KNOWN_FORMATS = BUILT_IN | CHECKED | PATTERNS.keys()


_LAST = frozenset({"$ref", "allOf", "anyOf", "const", "enum"})
"""Keywords that must be last. llguidance reads keywords in order and stops at these. It merges the
keywords before and after one of them like two schemas, which changes `additionalProperties`."""


class PropertyOrder:
    """The order in which a schema declares its properties. Engines write members in that order, and
    the canonical form loses it."""

    def __init__(self, schema: Any) -> None:
        self._lists: list[list[str]] = []
        self._listed: dict[str, list[int]] = {}
        for _, node in reachable(schema):
            if isinstance(node.get("properties"), dict):
                self._lists.append(list(node["properties"]))
                for name in self._lists[-1]:
                    self._listed.setdefault(name, []).append(len(self._lists) - 1)

    def sort(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Properties in the order of the declaration that shares most names with them, then of the
        other declarations."""
        common = Counter(at for name in properties for at in self._listed.get(name, ()))
        names = [name for at, _ in common.most_common() for name in self._lists[at]]
        known = [name for name in dict.fromkeys(names) if name in properties]
        return {name: properties[name] for name in dict.fromkeys([*known, *properties])}


def to_engine_form(schema: Any, order: PropertyOrder) -> Any:
    """A copy of a normalised or canonical schema, with its properties in `order`. It is equivalent,
    except that formats are narrowed to their patterns."""
    schema = deep_copy(schema)
    move_targets_to_defs(schema, find_references(schema))
    for _, node in [*subschemas(schema)]:
        if isinstance(node, dict):
            for keyword in [k for k in node if k not in ASSERTIONS and k not in DEFINITIONS]:
                del node[keyword]
            _property_names(node)
            _format(node)
            _patterns(node)
            if isinstance(node.get("properties"), dict):
                node["properties"] = order.sort(node["properties"])
            for keyword in _LAST & node.keys():
                node[keyword] = node.pop(keyword)
    return schema


def _format(node: dict[str, Any]) -> None:
    name = node.get("format")
    if name not in KNOWN_FORMATS:
        node.pop("format", None)
    if name in PATTERNS:
        del node["format"]
        _match(node, PATTERNS[name])
    if name in LENGTHS:
        node["maxLength"] = min(node.get("maxLength", LENGTHS[name]), LENGTHS[name])


def _match(node: dict[str, Any], patterns: Iterable[str]) -> None:
    """Require strings to match these patterns too."""
    for pattern in patterns:
        if "pattern" not in node:
            node["pattern"] = pattern
        else:
            node["allOf"] = [*node.get("allOf", ()), {"pattern": pattern}]


def _patterns(node: dict[str, Any]) -> None:
    """Write patterns without look-ahead, with anchors only where engines read them, and with
    characters that every validator accepts."""
    if "pattern" in node:
        given = node["pattern"]
        plain = None if is_maskable(given) else plain_patterns(given)
        node["pattern"], *others = [_for_engines(each) for each in plain or [given]]
        _match(node, others)
    if "patternProperties" in node:
        members = node["patternProperties"]
        made = {_for_engines(p): schema for p, schema in members.items()}
        node["patternProperties"] = made if len(made) == len(members) else members


def _for_engines(pattern: str) -> str:
    plain = pattern if is_maskable(pattern) else plain_pattern(matching(pattern))
    if plain is None:
        return pattern
    given = parse(plain)
    part = with_certain_white_space(given)
    if has_inner_anchor(part):
        return f"^(?:{text_of(whole(part))})$"
    return plain if part == given else text_of(part)


def _property_names(node: dict[str, Any]) -> None:
    """Declare the members that `propertyNames` allows, if it lists them, or if it is one pattern
    and no member is declared."""
    names = node.get("propertyNames")
    if names is True or names == {}:
        del node["propertyNames"]
    if not isinstance(names, dict) or names == {} or "patternProperties" in node:
        return
    rest = node.get("additionalProperties", True)
    declared = node.get("properties", {})
    listed = names.get("enum", [names["const"]] if "const" in names else None)
    if listed is not None and not names.keys() - {"enum", "const", "type"}:
        allowed = {name: declared.get(name, rest) for name in listed if isinstance(name, str)}
        node["properties"] = allowed
    elif names.keys() <= {"pattern", "type"} and "pattern" in names and not declared:
        node["patternProperties"] = {names["pattern"]: rest}
    else:
        return
    node["additionalProperties"] = False
    del node["propertyNames"]


# --- white space of patterns ---

DISPUTED = ranges_of([(0x1C, 0x1F), (0x85, 0x85), (0xFEFF, 0xFEFF)])
"""Validators disagree with ECMA-262 on whether U+001C to U+001F, U+0085 and U+FEFF are white space.
Masks allow none of them in the classes of white space and of all else, so that every validator
accepts what a model writes."""
_OGHAM, _AFTER_OGHAM, _SEPARATOR, _NEXT_LINE, _MARK = 0x1680, 0x1681, 0x1C, 0x85, 0xFEFF


def with_certain_white_space(part: Part) -> Part:
    r"""The pattern without disputed characters for `\s` and `\S`. In a negative look-around it
    stays as it is: there it would match more."""
    match part:
        case Characters() if _tells_white_space(part.ranges):
            change = _with if part.excluded else _without
            return replace(part, ranges=change(part.ranges))
        case Sequence(parts):
            return Sequence(tuple(map(with_certain_white_space, parts)))
        case Alternatives(options):
            return Alternatives(tuple(map(with_certain_white_space, options)))
        case Repeated(one) | Group(one) | Look(one, negative=False):
            return replace(part, part=with_certain_white_space(one))
    return part


def _tells_white_space(ranges: Ranges) -> bool:
    r"""Whether a class has `\s` or `\S` in it, by a rare space, a character that is none, and
    disputed ones. Of both together, it has all characters."""
    is_space, is_other = has(ranges, _OGHAM), has(ranges, _AFTER_OGHAM)
    are_disputed = [has(ranges, each) for each in (_SEPARATOR, _NEXT_LINE)]
    return (
        is_space != is_other and has(ranges, _MARK) == is_space and are_disputed == [is_other] * 2
    )


def _without(ranges: Ranges) -> Ranges:
    return other_than(_with(other_than(ranges)))


def _with(ranges: Ranges) -> Ranges:
    return union(ranges, DISPUTED)
