"""Patterns: which ones masks can enforce."""

from __future__ import annotations

from functools import lru_cache

from .regular.reading import parse
from .regular.syntax import Both, Other, Unsupported, every_part
from .regular.whole import whole


def is_maskable(pattern: str) -> bool:
    """Whether masks can enforce this pattern as it is. An engine may still find it too large."""
    return objection_to(pattern) is None


@lru_cache(maxsize=4_096)
def objection_to(pattern: str) -> str | None:
    """Why masks can't enforce a pattern as it is; None if they can."""
    try:
        part = whole(parse(pattern))
    except Unsupported as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    looks = any(isinstance(each, Both | Other) for each in every_part(part))
    return "its look-ahead has too many states" if looks else None
