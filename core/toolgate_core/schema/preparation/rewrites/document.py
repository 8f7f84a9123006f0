"""A schema that is being rewritten: its references, and where its keywords came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema_rs

from ....pointer import escape, joined
from ...keywords import ASSERTIONS
from ...refs import find_references
from ...walk import deep_copy, pointer_of_ref, reachable, ref_to, trails
from ..relaxation import Occurrence
from .context import Context, without
from .emptiness import Emptiness, Node
from .separation import separate_negations


class Document:
    """A copy of a schema. Rules change its nodes in place and may move them, since references and
    origins are known by the identity of nodes. A node that is copied loses both."""

    def __init__(self, schema: Any, *, closing: bool = False, narrowing: bool = False) -> None:
        """`closing`: whether rules may exclude undeclared members of objects that declare
        properties. `narrowing`: whether they may exclude any values."""
        self.closing = closing
        self.narrowing = narrowing
        self._given = schema
        self.root = deep_copy(schema)
        self._nodes = [*reachable(self.root)]
        self._places = {id(node): pointer for pointer, node in self._nodes}
        """By identity: the JSON Pointers of nodes in the given schema."""
        for node, pointer in separate_negations(self.root, self._nodes):
            self._places[id(node)] = pointer
            self._nodes.append((pointer, node))
        references = find_references(self.root)
        self._targets = {id(node): (node, target) for node, target in references.pairs}
        for _, node in self._nodes:
            if pointer_of_ref(node.get("$ref")) == "":
                self._targets[id(node)] = (node, self.root)
        self._renamed: dict[tuple[int, str], str] = {}
        self._made: dict[int, tuple[Node, Occurrence]] = {}
        """By identity: nodes that a rule made, and the occurrence that they stand for."""
        self._extended = self._find_extended() if closing else set[int]()
        self._context = Context([node for _, node in self._nodes], self.target)
        self.emptiness = Emptiness(self.target)

    def places(self) -> list[tuple[str, Node]]:
        """The nodes with their JSON Pointers in the given schema, inner ones first."""
        return [*reversed(self._nodes)]

    def node_at(self, pointer: str) -> Node | None:
        """The node at this place of the given schema."""
        return next((node for at, node in self._nodes if at == pointer), None)

    def is_extended(self, node: Node) -> bool:
        """Whether other schemas may describe the same values as a node of the given schema."""
        return id(node) in self._extended

    def _find_extended(self) -> set[int]:
        found: set[int] = set()
        pending = [(node, False) for _, node in self._nodes]
        while pending:
            node, extended = pending.pop()
            if extended:
                if id(node) in found:
                    continue
                found.add(id(node))
            single = len(node.keys() & ASSERTIONS) <= 1 and len(node.get("allOf", ())) <= 1
            if single and not extended:
                continue
            inside = [self.target(node)] if "$ref" in node else []
            for keyword in ("allOf", "anyOf", "oneOf"):
                inside += node.get(keyword, [])
            inside += [node[keyword] for keyword in ("if", "then", "else") if keyword in node]
            inside += node.get("dependentSchemas", {}).values()
            pending += [(each, True) for each in inside if isinstance(each, dict)]
        return found

    def target(self, node: Node) -> Any:
        """The target of the node's reference; `true` if it has none that is known."""
        return self._targets[id(node)][1] if id(node) in self._targets else True

    def beside(self, node: Node, *keywords: str) -> Node:
        """A copy of a node without these keywords, and of the schemas around it, for proofs."""
        rest = without(node, self.target, *keywords)
        if around := self._context.around(node):
            rest["allOf"] = [*rest.get("allOf", ()), *around]
        return rest

    def accepts(self, pointer: str) -> Callable[[Any], bool]:
        """Whether a value is valid against the schema at this place of the given schema."""
        given = {"$id": "urn:given", **self._given}
        whole = {"$ref": f"urn:given{ref_to(pointer)}", "$defs": {"given": given}}
        try:
            return jsonschema_rs.validator_for(whole, validate_formats=True).is_valid
        except (ValueError, jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError):
            return lambda _: False

    def replace(self, node: Node, keyword: str, new: str, value: Any) -> None:
        """Replace a keyword of a node with another one, which the node may have already."""
        del node[keyword]
        if new not in node:
            node[new] = value
            self._renamed[id(node), new] = keyword
            return
        made = {new: value}
        self.made(made, Occurrence(f"{self._places[id(node)]}/{keyword}", keyword))
        node["allOf"] = [*node.get("allOf", ()), made]

    def made(self, node: Node, origin: Occurrence) -> None:
        """Count a new node as a part of a keyword of the given schema."""
        self._made[id(node)] = (node, origin)

    def refer(self, target: Any) -> Any:
        """A schema that stands for another one, which becomes a definition if it is not elsewhere
        in the schema."""
        if isinstance(target, bool) or target is self.root:
            return target
        node: Node = {"$ref": ""}
        self._targets[id(node)] = (node, target)
        return node

    def finish(self) -> Any:
        """The schema with its references as JSON Pointers again."""
        pairs = [pair for pair in self._targets.values() if "$ref" in pair[0]]
        definitions: dict[str, Any] = {}
        while True:
            places = {id(value): trail for trail, value in trails(self.root)}
            lost = [t for _, t in pairs if not isinstance(t, bool) and id(t) not in places]
            if not lost:
                break
            definitions[f"rewritten-{len(definitions)}"] = lost[0]
            self.root["$defs"] = {**self.root.get("$defs", {}), **definitions}
        for node, target in pairs:
            if isinstance(target, bool):
                del node["$ref"]
                node["allOf"] = [*node.get("allOf", ()), target]
            else:
                node["$ref"] = ref_to(joined(places[id(target)]))
        return self.root

    def origin(self, occurrence: Occurrence) -> Occurrence:
        """The occurrence in the given schema that one of the rewritten schema stands for."""
        value, place, part = self.root, "", None
        for token in occurrence.owner.split("/")[1:]:
            name = token.replace("~1", "/").replace("~0", "~")
            value = value[int(name)] if isinstance(value, list) else value[name]
            if id(value) in self._places:
                place, part = self._places[id(value)], None
            elif id(value) in self._made:
                part = self._made[id(value)][1]
        if part is not None:
            return part
        keyword = self._renamed.get((id(value), occurrence.keyword), occurrence.keyword)
        return Occurrence(f"{place}/{escape(keyword)}", keyword)
