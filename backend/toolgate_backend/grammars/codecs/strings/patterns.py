"""Patterns of JSON Schema as regular expressions of llguidance's Lark.

JSON Schema's `pattern` is searched for (ECMA-262), a terminal of Lark matches as a whole, and has
no anchors.
"""

from __future__ import annotations

from toolgate_core.schema.regular.reading import parse
from toolgate_core.schema.regular.syntax import Unsupported
from toolgate_core.schema.regular.text import text_of
from toolgate_core.schema.regular.whole import whole

from ....errors import GrammarRefused

_EMPTY = "(?:)"
"""An empty regular expression would begin a comment of Lark."""


def whole_text(pattern: str) -> str:
    """A regular expression that matches as a whole the strings in which `pattern` is found. Raises
    GrammarRefused if there is none."""
    try:
        return text_of(whole(parse(pattern))) or _EMPTY
    except (Unsupported, RecursionError) as error:
        raise GrammarRefused(
            f"the pattern {pattern[:60]!r} cannot be a raw text: {error}", ""
        ) from error
