"""Patterns: which ones masks can enforce, and patterns that exclude given strings."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from .regular.characters import escaped
from .regular.reading import parse
from .regular.syntax import Both, Other, Unsupported, every_part
from .regular.whole import whole

MAX_EXCLUDING = 20_000
"""Maximum length of a pattern that excludes strings, in characters."""
_ANY = r"[\s\S]"


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


def pattern_excluding(texts: Iterable[str]) -> str | None:
    """A pattern for every string except these; None if it would be too long.

    JSON Schema's regular expressions have no complement. The complement of a finite set is short:
    a string is not in the set if it ends at a prefix that is not itself in the set, or if it
    continues a prefix with a character that no string of the set has in that place.
    """
    excluded = frozenset(texts)
    following: dict[str, set[str]] = {"": set()}
    for text in excluded:
        for length, character in enumerate(text):
            following.setdefault(text[:length], set()).add(character)
        following.setdefault(text, set())
    ways: list[str] = []
    size = 0
    for prefix, characters in following.items():
        other = f"[^{''.join(map(escaped, sorted(characters)))}]" if characters else _ANY
        way = f"{''.join(map(escaped, prefix))}(?:{other}{_ANY}*)"
        ways.append(way if prefix in excluded else f"{way}?")
        size += len(way)
        if size > MAX_EXCLUDING:
            return None
    return f"^(?:{'|'.join(ways)})$"
