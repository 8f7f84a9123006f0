"""The characters of Unicode's properties, by the tables of the validator's engine."""

from __future__ import annotations

from functools import lru_cache

import jsonschema_rs

from .characters import Ranges, other_than, ranges_of

_BLOCK = 4_096


@lru_cache(maxsize=1_024)
def is_known(name: str) -> bool:
    """Whether there is such a property, written as `p{L}` or `P{L}`."""
    try:
        jsonschema_rs.validator_for({"pattern": rf"\{name}"})
    except (ValueError, jsonschema_rs.ValidationError):
        return False
    return True


@lru_cache(maxsize=128)
def characters_of_property(name: str) -> Ranges | None:
    """None if there is no such property. Takes some hundredths of a second: blocks in which all
    characters are alike are not looked at one by one."""
    if not is_known(name):
        return None
    if name.startswith("P"):
        found = characters_of_property(f"p{name[1:]}")
        return None if found is None else other_than(found)
    some = jsonschema_rs.validator_for({"pattern": rf"\{name}"}).is_valid
    other = jsonschema_rs.validator_for({"pattern": rf"\P{name[1:]}"}).is_valid
    every = _every_character()
    parts = []
    pending = [(start, min(start + _BLOCK, len(every))) for start in range(0, len(every), _BLOCK)]
    while pending:
        start, end = pending.pop()
        text = every[start:end]
        if not some(text):
            continue
        if not other(text):
            parts.append((ord(text[0]), ord(text[-1])))
            continue
        middle = (start + end) // 2
        pending += [(start, middle), (middle, end)]
    return ranges_of(parts)


@lru_cache(maxsize=1)
def _every_character() -> str:
    return "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
