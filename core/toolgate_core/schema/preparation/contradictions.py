"""The keywords for which no value satisfies a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...pointer import escape
from ..keywords import ASSERTIONS
from ..walk import at_pointer, pointer_of_ref
from .rewrites.emptiness import Emptiness

MAX_DEPTH = 50
"""Maximum number of steps into a schema."""
STEPS = 200
"""Number of steps of each proof. A contradiction that needs more of them is not named."""
NAMED = 3
"""Maximum number of keywords that are named together."""


@dataclass(frozen=True)
class Contradiction:
    pointer: str
    """JSON Pointer of a keyword, or of a schema that is `false`."""
    keywords: tuple[str, ...]
    """The keywords of one schema that contradict each other; one that contradicts itself."""

    @property
    def reason(self) -> str:
        if not self.keywords:
            return "no value satisfies it, and it is required"
        together = " together" if len(self.keywords) > 1 else ""
        return f"no value satisfies {' and '.join(map(repr, self.keywords))}{together}"


def contradiction_in(document: Any) -> Contradiction | None:
    """The innermost contradiction that leaves a schema without a value, as far as one is found with
    few steps."""
    pointer, node = "", document
    for _ in range(MAX_DEPTH):
        if not _is_empty(node, document):
            return None
        inner = next(
            (each for each in _needed(pointer, node, document) if _is_empty(each[1], document)),
            None,
        )
        if inner is None:
            break
        pointer, node = inner
    if not isinstance(node, dict):
        return Contradiction(pointer, ()) if pointer else None
    keywords = _contradicting(node, document)
    if not 0 < len(keywords) <= NAMED:
        return None
    return Contradiction(f"{pointer}/{escape(keywords[0])}", keywords)


def _contradicting(node: dict[str, Any], document: Any) -> tuple[str, ...]:
    """The fewest keywords of a node without a value that have none by themselves."""
    kept = [keyword for keyword in node if keyword in ASSERTIONS]
    for keyword in [*kept]:
        rest = {each: node[each] for each in kept if each != keyword}
        if _is_empty(rest, document):
            kept.remove(keyword)
    return tuple(each for each in kept if each != "type" or len(kept) < 3)


def _needed(pointer: str, node: Any, document: Any) -> Iterator[tuple[str, Any]]:
    """The schemas in a node that have to have a value, so that it has one. Of alternatives that
    have none, the first."""
    if not isinstance(node, dict):
        return
    target = pointer_of_ref(node.get("$ref"))
    if target is not None:
        yield target, at_pointer(document, target)
    for at, each in enumerate(node.get("allOf", ())):
        yield f"{pointer}/allOf/{at}", each
    for keyword in ("anyOf", "oneOf"):
        options: Sequence[Any] = node.get(keyword, ())
        if options and all(_is_empty(each, document) for each in options):
            yield f"{pointer}/{keyword}/0", options[0]
    if node.get("type") == "object":
        for name in node.get("required", ()):
            if name in node.get("properties", {}):
                yield f"{pointer}/properties/{escape(name)}", node["properties"][name]
    if node.get("type") == "array" and node.get("minItems", 0) > 0:
        if node.get("prefixItems"):
            yield f"{pointer}/prefixItems/0", node["prefixItems"][0]
        elif "items" in node:
            yield f"{pointer}/items", node["items"]


def _is_empty(schema: Any, document: Any) -> bool:
    def target(node: dict[str, Any]) -> Any:
        pointer = pointer_of_ref(node["$ref"])
        return True if pointer is None else at_pointer(document, pointer)

    return Emptiness(target, STEPS).never(schema)
