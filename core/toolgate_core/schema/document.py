"""Normalisation of a schema: draft 2020-12, every reference a JSON Pointer into the schema, every
pattern in the syntax that all readers share.

References by `$id`, `$anchor` and JSON Pointer are resolved here. Nothing outside the schema is
fetched. A `$dynamicRef` with a single possible target becomes a `$ref`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from ..errors import InvalidTools, SchemaNotEnforceable, SchemaTooComplex
from ..pointer import Trail, escape, joined
from .keywords import ANNOTATIONS, DEFINITIONS, SINCE
from .patterns import is_portable, portable
from .walk import at_pointer, children, deep_copy, ref_to, trails

_NAMES = ("$id", "$anchor", "$recursiveAnchor", "$vocabulary")
REFERENCES = ("$ref", "$recursiveRef", "$dynamicRef")
MAX_REFERENCE_LENGTH = 2_000_000
"""Maximum length of all references as JSON Pointers, in characters. Pointers repeat names that the
given schema has only once, so many references can multiply its size."""

MAX_URI_LENGTH = 2_000_000
"""Maximum length of all identifiers and references as absolute URIs, in characters. They repeat the
identifier to which they are relative."""

MAX_TRANSLATED = 8_000
"""Maximum length of all patterns of a schema that have to be translated, in characters. Each takes
ten microseconds. Of 2,401 real schemas, none has more than 1,155."""


def normalise(schema: Any, *, param: str | None = None) -> Any:
    """A copy of `schema` whose only references are `$ref: "#"` and `$ref: "#/…"`.

    A schema with a `$dynamicRef` that has several possible targets keeps its references. Raise
    SchemaNotEnforceable, with the pointer of the reference in the given schema, if the target is
    outside the schema or missing. Raise InvalidTools if a keyword has a value of the wrong type."""
    document = _Document(deep_copy(schema), draft_of(schema), param)
    document.index(document.root, "", None)
    document.resolve()
    return document.rewritten()


class _Document:
    def __init__(self, root: Any, draft: int | None, param: str | None) -> None:
        self.root = root
        self._draft = draft
        self._param = param
        self._legacy = draft is not None and draft <= 7
        self._id = "id" if draft == 4 else "$id"
        self._resources: dict[str, Any] = {"": root}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._dynamic: dict[str, list[Any]] = {}
        self._nodes: dict[int, tuple[dict[str, Any], str, Trail]] = {}
        """By identity: each subschema, its base URI, its trail."""
        self._unresolved: deque[int] = deque()
        self._targets: dict[int, list[Any]] = {}
        """By identity of the subschema: the targets of its references."""
        self._truly_dynamic = False
        self._written = 0  # characters of references so far
        self._joined = 0  # characters of URIs so far
        self._recursive = 0
        """Number of subschemas with a `$recursiveAnchor`."""

    def index(self, node: Any, base: str, trail: Trail) -> None:
        """Add a schema and all schemas inside it."""
        pending = [(node, base, trail)]
        while pending:
            node, base, trail = pending.pop()
            if not isinstance(node, dict) or id(node) in self._nodes:
                continue
            base = self._register_names(node, base, trail)
            self._nodes[id(node)] = (node, base, trail)
            self._unresolved.append(id(node))
            self._recursive += node.get("$recursiveAnchor") is True
            pending.extend((child, base, (trail, step)) for step, child in children("", node))

    def _register_names(self, node: dict[str, Any], base: str, trail: Trail) -> str:
        """Register the `$id` and the anchors of a subschema. Return its base URI."""
        identifier = node.get(self._id)
        if isinstance(identifier, str) and not (self._legacy and "$ref" in node):
            uri, fragment = self._resolved(base, identifier, (trail, f"/{self._id}"))
            if uri != base or node is self.root:
                base = uri
                self._resources[uri] = node
            if fragment and self._legacy:
                self._anchors[base, fragment] = node
        if not self._legacy:
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    self._anchors[base, node[keyword]] = node
            if isinstance(node.get("$dynamicAnchor"), str):
                self._dynamic.setdefault(node["$dynamicAnchor"], []).append(node)
        return base

    def resolve(self) -> None:
        """Find the target of every reference, also of those inside targets."""
        while self._unresolved:
            key = self._unresolved.popleft()
            node, base, trail = self._nodes[key]
            for keyword in self._references(node):
                at = (trail, f"/{escape(keyword)}")
                target = self._target(keyword, node[keyword], base, at)
                self._targets.setdefault(key, []).append(target)

    def _references(self, node: dict[str, Any]) -> Iterator[str]:
        for keyword in REFERENCES:
            if isinstance(node.get(keyword), str):
                if keyword == "$recursiveRef" and self._draft != 2019:
                    continue
                if keyword == "$dynamicRef" and (self._legacy or self._draft == 2019):
                    continue
                yield keyword

    def _target(self, keyword: str, ref: str, base: str, trail: Trail) -> Any:
        uri, fragment = self._resolved(base, ref, trail)
        fragment = unquote(fragment)
        if uri not in self._resources:
            raise self._error(
                f"The reference {ref!r} leads out of the schema, and nothing is fetched. Put its "
                "target below $defs.",
                trail,
            )
        resource = self._resources[uri]
        try:
            if not fragment or fragment.startswith("/"):
                target = at_pointer(resource, fragment)
            else:
                target = self._anchors[uri, fragment]
        except (LookupError, ValueError) as error:
            raise self._error(f"The target of the reference {ref!r} is missing.", trail) from error
        if not isinstance(target, dict | bool):
            raise self._error(f"The target of the reference {ref!r} is not a schema.", trail)
        if isinstance(target, dict):
            self.index(target, uri, (None, fragment))
            self._check_dynamic(keyword, fragment, target, trail)
        return target

    def _check_dynamic(
        self, keyword: str, fragment: str, target: dict[str, Any], trail: Trail
    ) -> None:
        """Note whether the target of a reference depends on the dynamic scope. Raise for recursive
        references that do."""
        if keyword == "$dynamicRef" and target.get("$dynamicAnchor") == fragment:
            self._truly_dynamic |= len(self._dynamic[fragment]) > 1
        recursive = keyword == "$recursiveRef" and target.get("$recursiveAnchor") is True
        if recursive and self._recursive > 1:
            raise self._error(
                "$recursiveRef over several schemas is not supported. Use $dynamicRef.", trail
            )

    def rewritten(self) -> Any:
        self.__translate_patterns()
        if self._truly_dynamic:
            return self.root
        for node, _, _ in self._nodes.values():
            upgrade(node, self._draft, param=self._param)
        places = self._places() if self._targets else {}
        for key, targets in self._targets.items():
            node, _, trail = self._nodes[key]
            for keyword in REFERENCES:
                node.pop(keyword, None)
            for target in targets:
                if isinstance(target, dict) and id(target) in places:
                    self._refer(node, joined(places[id(target)]), trail)
                elif isinstance(target, dict) and key in places:
                    raise self._error(
                        "The target of the reference is next to a $ref, where it is ignored.", trail
                    )
                elif target is False:
                    node["not"] = {}
        for node, _, _ in self._nodes.values():
            for keyword in (self._id, "$dynamicAnchor", *_NAMES):
                node.pop(keyword, None)
        return self.root

    def __translate_patterns(self) -> None:
        count = 0
        for node, _, trail in self._nodes.values():
            count += _translate_patterns(node)
            if count > MAX_TRANSLATED:
                raise SchemaTooComplex(
                    f"The patterns of this schema have more than {MAX_TRANSLATED:,} characters "
                    "that engines of regular expressions read in different ways. Shorten them.",
                    pointer=joined(trail),
                    param=self._param,
                )

    def _refer(self, node: dict[str, Any], pointer: str, trail: Trail) -> None:
        self._written += len(pointer)
        if self._written > MAX_REFERENCE_LENGTH:
            raise SchemaTooComplex(
                "The references of this schema have targets with long names. Shorten the names.",
                pointer=joined(trail),
                param=self._param,
            )
        try:
            ref = ref_to(pointer)
        except UnicodeEncodeError as error:
            raise InvalidTools(
                "The target of a $ref has a name that is not valid Unicode. Change the name.",
                param=self._param,
            ) from error
        if "$ref" not in node:
            node["$ref"] = ref
            return
        present = node.get("allOf", [])
        if not isinstance(present, list):
            raise InvalidTools("allOf in the schema must be an array.", param=self._param)
        node["allOf"] = [*present, {"$ref": ref}]

    def _places(self) -> dict[int, Trail]:
        """Return the current trails of references and targets, by identity."""
        wanted = {id(t) for targets in self._targets.values() for t in targets} | {*self._targets}
        return {id(value): at for at, value in trails(self.root) if id(value) in wanted}

    def _resolved(self, base: str, uri: str, trail: Trail) -> tuple[str, str]:
        """Return the URI resolved against its base, and its fragment. urllib does not join URNs."""
        if uri.startswith("#"):
            return base, uri[1:]
        self._joined += len(base) + len(uri)
        if self._joined > MAX_URI_LENGTH:
            raise SchemaTooComplex(
                "The identifiers and references of this schema are long URIs. Shorten them.",
                pointer=joined(trail),
                param=self._param,
            )
        try:
            resolved, fragment = urldefrag(urljoin(base, uri))
        except ValueError as error:
            raise self._error(f"{uri!r} is not a valid URI.", trail) from error
        return resolved, fragment

    def _error(self, message: str, trail: Trail) -> SchemaNotEnforceable:
        return SchemaNotEnforceable(message, pointer=joined(trail), param=self._param)


def _translate_patterns(node: dict[str, Any]) -> int:
    """Translate the patterns of one schema, without those inside it, in place. Return the number of
    characters that had to be translated."""
    single, named = node.get("pattern"), node.get("patternProperties")
    count = 0
    if isinstance(single, str):
        count += _translated(single)
        node["pattern"] = portable(single)
    if isinstance(named, dict):
        count += sum(map(_translated, named))
        translated = {portable(pattern): schema for pattern, schema in named.items()}
        if len(translated) == len(named):  # otherwise, two would become the same one
            node["patternProperties"] = translated
    return count


def _translated(pattern: str) -> int:
    return 0 if is_portable(pattern) else len(pattern)


# --- older drafts ---

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
    """Return the draft in a schema's `$schema`; None if it is missing or unknown. Such a schema is
    read as 2020-12, and keywords of older drafts keep their old meaning."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(named, str):
        return None
    return _DRAFTS.get(named.rstrip("#").split("://")[-1])


def upgrade(schema: dict[str, Any], draft: int | None, *, param: str | None = None) -> None:
    """Upgrade one subschema in place, without the schemas inside it. Raise InvalidTools if a new
    keyword cannot be combined with the present ones."""
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
