"""Terminals of the names of members that a schema does not declare."""

from __future__ import annotations

from collections.abc import Iterable

from toolgate_core.schema.preparation.further_members import FurtherMembers
from toolgate_core.schema.regular.languages import Matching

from .raw_strings import whole_text
from .rules import Rules, quoted


def further_names(
    rules: Rules, names: FurtherMembers, usual: str, writable: str, after: str = ""
) -> str | None:
    """Add a terminal of names with the text after them; None if none can be written. `writable` are
    the names that the codec can write, `usual` those for which the schema has no pattern."""
    if names.pattern is None:
        known = (f"{name}{after}" for name in sorted(names.declared))
        return undeclared(rules, f"/{usual}{after}/", filter(None, known))
    allowed = f"^{writable if names.by_pattern else usual}$"
    if (Matching(names.pattern) & Matching(allowed)).is_empty is not False:
        return None
    parts = [f"/(?:{whole_text(each)}){after}/" for each in (names.pattern, allowed)]
    return rules.add("KEY", " & ".join(rules.add("KEY", each) for each in parts))


def undeclared(rules: Rules, names: str, declared: Iterable[str]) -> str:
    """Add a terminal of the texts of `names` that are not among `declared`."""
    key = rules.add("KEY", names)
    known = " | ".join(map(quoted, declared))
    return rules.add("KEY", f"{key} & ~{rules.add('KEY', known)}") if known else key
