"""Every keyword of a schema at its place, and who holds it: the masks, the check, or nobody because
it asserts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..pointer import escape
from .advice import ADVICE
from .engine_form import KNOWN_FORMATS
from .keywords import ASSERTIONS, DEFINITIONS
from .prepare import Prepared, prepared
from .walk import reachable, subschemas

By = Literal["mask", "check", "nobody"]


@dataclass(frozen=True)
class Place:
    """One occurrence of a keyword. `pointer` leads to it."""

    pointer: str
    keyword: str
    by: By
    """`mask`: no token comes that breaks it. `check`: masks leave it open, the finished call is
    checked. `nobody`: it asserts nothing there."""
    why: str = ""
    rewrite: str = ""
    """How to have it masked."""


@dataclass(frozen=True)
class SchemaCoverage:
    places: tuple[Place, ...]
    prepared: Prepared

    @property
    def residual(self) -> tuple[Place, ...]:
        """The keywords left to the check, without those inside them."""
        gone = {occurrence.pointer for occurrence in self.prepared.residual}
        return tuple(place for place in self.places if place.pointer in gone)


def coverage(schema: Any, made: Prepared | None = None) -> SchemaCoverage:
    """Of a normalised schema (`document`), of which `made` has been made if that is known. Raises
    SchemaNotEnforceable for one that is refused."""
    if made is None:
        made = prepared(schema)
    gone = {occurrence.pointer for occurrence in made.residual}
    bearing = {id(node) for _, node in reachable(schema)}
    places = [
        _place(f"{pointer}/{escape(keyword)}", keyword, value, gone, id(node) in bearing)
        for pointer, node in subschemas(schema)
        if isinstance(node, dict)
        for keyword, value in node.items()
        if keyword not in DEFINITIONS
    ]
    return SchemaCoverage(tuple(places), made)


def _place(pointer: str, keyword: str, value: object, gone: set[str], bears: bool) -> Place:
    if not bears:
        return Place(pointer, keyword, "nobody", "It stands in a definition that is not used.")
    if keyword not in ASSERTIONS:
        return Place(pointer, keyword, "nobody", "It asserts nothing.")
    if keyword == "format" and value not in KNOWN_FORMATS:
        return Place(pointer, keyword, "nobody", "No standard knows this format.")
    if pointer in gone:
        why, rewrite = ADVICE.get(keyword, ADVICE[""])
        return Place(pointer, keyword, "check", why, rewrite)
    if any(_inside(pointer, other) for other in gone):
        return Place(pointer, keyword, "check", "It stands inside a keyword that is checked.")
    return Place(pointer, keyword, "mask")


def _inside(pointer: str, other: str) -> bool:
    """A `oneOf` that is checked is masked as `anyOf`: what is inside it is masked."""
    return pointer.startswith(f"{other}/") and not other.endswith("/oneOf")
