"""Why masks cannot enforce a keyword, and what to write instead."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from toolgate_core.schema.keywords import CHECKED
from toolgate_core.schema.patterns import for_engines, objection_to
from toolgate_core.schema.preparation.engine_form import is_exact
from toolgate_core.schema.walk import at_pointer

_FILE = resources.files(__package__).joinpath("advice.toml").read_text("utf-8")
ADVICE: dict[str, tuple[str, str]] = {
    keyword: (why, rewrite)
    for keywords, (why, rewrite) in tomllib.loads(_FILE).items()
    for keyword in keywords.split(" ")
}
"""By keyword. The entry "" applies to all other keywords."""

_TOO_LARGE = (
    "It is too large for the grammar engines, by itself or with the keywords beside it.",
    "Use smaller counts in it, or fewer keywords beside it.",
)
_RAW_LENGTH = (
    "The model's form of calls has raw text, of which masks count up to 100 characters.",
    "Use a bound of at most 100, or none.",
)
_RAW_NUMBER = (
    "In the model's form of calls, a number has no bounds where a string is allowed, too.",
    "Allow numbers or strings, not both.",
)


def advice_on(schema: Any, pointer: str, keyword: str) -> tuple[str, str]:
    """Why masks cannot enforce one keyword of a schema, and what to write instead."""
    usual = ADVICE.get(keyword, ADVICE[""])
    try:
        value = at_pointer(schema, pointer)
    except (LookupError, ValueError):
        return usual
    match keyword:
        case "pattern":
            reasons = [r for each in for_engines(value) if (r := objection_to(each)) is not None]
            return (f"Masks cannot enforce it: {reasons[0]}.", usual[1]) if reasons else _TOO_LARGE
        case "patternProperties":
            reasons = [reason for each in value if (reason := objection_to(each)) is not None]
            return (f"A pattern cannot be enforced: {reasons[0]}.", usual[1]) if reasons else usual
        case "format" if value not in CHECKED:
            return _TOO_LARGE
        case "minLength" | "maxLength":
            return _RAW_LENGTH
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            return _RAW_NUMBER if is_exact(value) else ADVICE["const"]
    return usual
