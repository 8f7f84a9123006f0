"""How each keyword of a schema is enforced: by masks, by validation, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...pointer import escape
from ..keywords import ASSERTIONS, DEFINITIONS
from ..walk import reachable, subschemas
from .advice import advice_on
from .engine_form import KNOWN_FORMATS
from .prepare import PreparedSchema, prepare

EnforcedBy = Literal["masks", "validation", "nothing"]


@dataclass(frozen=True)
class KeywordCoverage:
    """One occurrence of a keyword."""

    pointer: str
    """JSON Pointer of the keyword."""
    keyword: str
    enforced_by: EnforcedBy
    """`masks`: no violating token is sampled. `validation`: masks can't enforce it, the completed
    call is validated. `nothing`: it asserts nothing in this place."""
    why: str = ""
    rewrite: str = ""
    """What to write instead, so that masks enforce it."""


@dataclass(frozen=True)
class SchemaCoverage:
    keywords: tuple[KeywordCoverage, ...]
    prepared: PreparedSchema

    @property
    def residual(self) -> tuple[KeywordCoverage, ...]:
        """The keywords left to validation, without those inside them."""
        removed = {occurrence.pointer for occurrence in self.prepared.residual}
        return tuple(each for each in self.keywords if each.pointer in removed)


def coverage(schema: Any, prepared: PreparedSchema | None = None) -> SchemaCoverage:
    """The coverage of a normalised schema (`document`). `prepared` is its prepared form, if the
    caller has it. Raises SchemaNotEnforceable if the schema is refused."""
    if prepared is None:
        prepared = prepare(schema)
    removed = {occurrence.pointer for occurrence in prepared.residual}
    used = {id(node) for _, node in reachable(schema)}
    keywords = [
        _coverage_of(schema, f"{at}/{escape(keyword)}", keyword, value, removed, id(node) in used)
        for at, node in subschemas(schema)
        if isinstance(node, dict)
        for keyword, value in node.items()
        if keyword not in DEFINITIONS
    ]
    return SchemaCoverage(tuple(keywords), prepared)


def _coverage_of(
    schema: Any, pointer: str, keyword: str, value: object, removed: set[str], used: bool
) -> KeywordCoverage:
    if not used:
        return KeywordCoverage(pointer, keyword, "nothing", "It is in an unused definition.")
    if keyword not in ASSERTIONS:
        return KeywordCoverage(pointer, keyword, "nothing", "It is not an assertion.")
    if keyword == "format" and value not in KNOWN_FORMATS:
        return KeywordCoverage(pointer, keyword, "nothing", "No standard defines this format.")
    if pointer in removed:
        why, rewrite = advice_on(schema, pointer, keyword)
        return KeywordCoverage(pointer, keyword, "validation", why, rewrite)
    if any(_is_inside(pointer, other) for other in removed):
        return KeywordCoverage(pointer, keyword, "validation", "It is inside a residual keyword.")
    return KeywordCoverage(pointer, keyword, "masks")


def _is_inside(pointer: str, other: str) -> bool:
    """Keywords inside a residual `oneOf` do not count: masks enforce it as `anyOf`."""
    return pointer.startswith(f"{other}/") and not other.endswith("/oneOf")
