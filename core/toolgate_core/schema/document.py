"""A schema of any draft as one of 2020-12 in which every reference is a pointer into itself.

References are resolved here, by `$id`, `$anchor` and pointer, and nowhere else; what is not in the
document is never fetched. A `$dynamicRef` that can lead to one place only becomes a `$ref`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from ..errors import InvalidTools, SchemaNotEnforceable, SchemaTooComplex
from ..pointer import Trail, escape, joined
from .drafts import draft_of, renew
from .walk import at_pointer, children, copied, reference, trails

_NAMES = ("$id", "$anchor", "$recursiveAnchor", "$vocabulary")
REFERENCES = ("$ref", "$recursiveRef", "$dynamicRef")
MOST_REFERENCES = 2_000_000
"""Characters of all references as pointers: each spells out the names on its way, which in the
schema as given stand once."""


def normalised(schema: Any, *, param: str | None = None) -> Any:
    """A copy of `schema` in which only `$ref` refers, as `#` or `#/…`. It keeps its `$schema`.

    A `$dynamicRef` that may lead to several places keeps its document as it is. Raises
    SchemaNotEnforceable, with the reference's pointer in the schema as given, for what leads out of
    the document or nowhere, and InvalidTools where what is no schema is in the way.
    """
    document = _Document(copied(schema), draft_of(schema), param)
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
        """By identity: each subschema, its base URI, the way to it."""
        self._unresolved: deque[int] = deque()
        self._targets: dict[int, list[Any]] = {}
        """By identity of the subschema: what its references lead to."""
        self._truly_dynamic = False
        self._written = 0
        self._recursive = 0
        """How many subschemas have a `$recursiveAnchor`."""

    def index(self, node: Any, base: str, trail: Trail) -> None:
        """Take in a schema with all schemas inside it."""
        pending = [(node, base, trail)]
        while pending:
            node, base, trail = pending.pop()
            if not isinstance(node, dict) or id(node) in self._nodes:
                continue
            base = self._name(node, base, trail)
            self._nodes[id(node)] = (node, base, trail)
            self._unresolved.append(id(node))
            self._recursive += node.get("$recursiveAnchor") is True
            pending.extend((child, base, (trail, step)) for step, child in children("", node))

    def _name(self, node: dict[str, Any], base: str, trail: Trail) -> str:
        """Register the names that a subschema gives itself; its base URI."""
        given = node.get(self._id)
        if isinstance(given, str) and not (self._legacy and "$ref" in node):
            uri, fragment = self._resolved(base, given, (trail, f"/{self._id}"))
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
        """Find what every reference leads to, also of those inside what was only reached so."""
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
            raise self._wrong(
                f"It refers to {ref!r}, which is not in the schema, and nothing is fetched: "
                "put it below $defs.",
                trail,
            )
        resource = self._resources[uri]
        try:
            if not fragment or fragment.startswith("/"):
                found = at_pointer(resource, fragment)
            else:
                found = self._anchors[uri, fragment]
        except (LookupError, ValueError) as error:
            raise self._wrong(f"It refers to {ref!r}, and there is nothing.", trail) from error
        if not isinstance(found, dict | bool):
            raise self._wrong(f"It refers to {ref!r}, which is no schema.", trail)
        if isinstance(found, dict):
            self.index(found, uri, (None, fragment))
            self._look_for_dynamics(keyword, fragment, found, trail)
        return found

    def _look_for_dynamics(
        self, keyword: str, fragment: str, found: dict[str, Any], trail: Trail
    ) -> None:
        """Whether what a reference leads to depends on how one came there."""
        if keyword == "$dynamicRef" and found.get("$dynamicAnchor") == fragment:
            self._truly_dynamic |= len(self._dynamic[fragment]) > 1
        recursive = keyword == "$recursiveRef" and found.get("$recursiveAnchor") is True
        if recursive and self._recursive > 1:
            raise self._wrong("It is recursive over several schemas: use $dynamicRef.", trail)

    def rewritten(self) -> Any:
        if self._truly_dynamic:
            return self.root
        for node, _, _ in self._nodes.values():
            renew(node, self._draft, param=self._param)
        places = self._places() if self._targets else {}
        for key, targets in self._targets.items():
            node, _, trail = self._nodes[key]
            for keyword in REFERENCES:
                node.pop(keyword, None)
            for target in targets:
                if isinstance(target, dict) and id(target) in places:
                    self._refer(node, joined(places[id(target)]), trail)
                elif isinstance(target, dict) and key in places:
                    raise self._wrong(
                        "It refers to a neighbour of a $ref, which is ignored.", trail
                    )
                elif target is False:
                    node["not"] = {}
        for node, _, _ in self._nodes.values():
            for keyword in (self._id, "$dynamicAnchor", *_NAMES):
                node.pop(keyword, None)
        return self.root

    def _refer(self, node: dict[str, Any], pointer: str, trail: Trail) -> None:
        self._written += len(pointer)
        if self._written > MOST_REFERENCES:
            raise SchemaTooComplex(
                "The references of this schema lead to names that are too long; shorten them.",
                pointer=joined(trail),
                param=self._param,
            )
        try:
            ref = reference(pointer)
        except UnicodeEncodeError as error:
            raise InvalidTools(
                "A name that a $ref in a schema leads to is not valid Unicode.", param=self._param
            ) from error
        if "$ref" not in node:
            node["$ref"] = ref
            return
        present = node.get("allOf", [])
        if not isinstance(present, list):
            raise InvalidTools("allOf in a schema must be an array.", param=self._param)
        node["allOf"] = [*present, {"$ref": ref}]

    def _places(self) -> dict[int, Trail]:
        """Where the subschemas that refer or are referred to stand now, by identity."""
        wanted = {id(t) for targets in self._targets.values() for t in targets} | {*self._targets}
        return {id(value): at for at, value in trails(self.root) if id(value) in wanted}

    def _resolved(self, base: str, uri: str, trail: Trail) -> tuple[str, str]:
        """Resolved against its base, and its fragment. urllib joins no URNs."""
        if uri.startswith("#"):
            return base, uri[1:]
        try:
            resolved, fragment = urldefrag(urljoin(base, uri))
        except ValueError as error:
            raise self._wrong(f"{uri!r} is no URI.", trail) from error
        return resolved, fragment

    def _wrong(self, message: str, trail: Trail) -> SchemaNotEnforceable:
        return SchemaNotEnforceable(message, pointer=joined(trail), param=self._param)
