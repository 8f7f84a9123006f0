"""The characters of Unicode's properties, by the tables of the validator's engine."""

from __future__ import annotations

from functools import lru_cache

import jsonschema_rs

from .characters import Ranges, other_than, ranges_of

_LAST = 0x10FFFF
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
    """None if there is no such property. Takes up to a tenth of a second: blocks in which all
    characters are alike are not looked at one by one."""
    if not is_known(name):
        return None
    if name.startswith("P"):
        found = characters_of_property(f"p{name[1:]}")
        return None if found is None else other_than(found)
    some = jsonschema_rs.validator_for({"pattern": rf"\{name}"}).is_valid
    other = jsonschema_rs.validator_for({"pattern": rf"\P{name[1:]}"}).is_valid
    parts = []
    pending = [(low, low + _BLOCK - 1) for low in range(0, _LAST + 1, _BLOCK)]
    while pending:
        low, high = pending.pop()
        text = "".join(chr(each) for each in range(low, high + 1) if not 0xD800 <= each <= 0xDFFF)
        if not some(text):
            continue
        if not other(text):
            parts.append((low, high))
            continue
        middle = (low + high) // 2
        pending += [(low, middle), (middle + 1, high)]
    return ranges_of(parts)
