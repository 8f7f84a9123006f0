"""How each keyword of a schema is enforced: by masks, by validation, or not at all."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from toolgate_core.pointer import escape
from toolgate_core.schema.keywords import ASSERTIONS, DEFINITIONS
from toolgate_core.schema.preparation.engine_form import KNOWN_FORMATS
from toolgate_core.schema.preparation.prepare import PreparedSchema
from toolgate_core.schema.walk import reachable, subschemas

EnforcedBy = Literal["masks", "validation", "nothing"]


class KeywordCoverage(NamedTuple):
    """One occurrence of a keyword."""

    pointer: str
    """JSON Pointer of the keyword."""
    keyword: str
    enforced_by: EnforcedBy
    """`masks`: no violating token is sampled. `validation`: masks can't enforce it, the completed
    call is validated. `nothing`: it asserts nothing in this place."""


def coverage(schema: Any, prepared: PreparedSchema) -> list[KeywordCoverage]:
    """The coverage of a normalised schema (`document`). `prepared` is its prepared form."""
    removed = {occurrence.pointer for occurrence in prepared.residual}
    used = {id(node) for _, node in reachable(schema)}
    return [
        KeywordCoverage(pointer, keyword, _enforced_by(pointer, keyword, value, removed))
        if id(node) in used
        else KeywordCoverage(pointer, keyword, "nothing")
        for at, node in subschemas(schema)
        if isinstance(node, dict)
        for keyword, value in node.items()
        if keyword not in DEFINITIONS and (pointer := f"{at}/{escape(keyword)}")
    ]


def _enforced_by(pointer: str, keyword: str, value: object, removed: set[str]) -> EnforcedBy:
    if keyword not in ASSERTIONS or (keyword == "format" and value not in KNOWN_FORMATS):
        return "nothing"
    if pointer in removed or any(_is_inside(pointer, other) for other in removed):
        return "validation"
    return "masks"


def _is_inside(pointer: str, other: str) -> bool:
    """Keywords inside a residual `oneOf` do not count: masks enforce it as `anyOf`."""
    return pointer.startswith(f"{other}/") and not other.endswith("/oneOf")
