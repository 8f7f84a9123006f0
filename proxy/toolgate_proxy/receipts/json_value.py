"""Exact JSON values and their canonical form.

The canonical form is JSON without white space, with sorted names, and with all characters other
than ASCII escaped. A number is written as its significant digits and a power of ten: `1.50` and
`15e-1` are both `15e-1`. No number is rounded, whatever its range.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAX_DIGITS = 18
"""Maximum length of an integer that is read as an `int`, and of an exponent that is normalised."""
MAX_SHOWN = 60
"""Characters of a name that a message shows."""
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?")


class NotJson(ValueError):
    """The text is not JSON, or it is nested too deeply to be read."""


class DuplicateMember(ValueError):
    """An object has two members of one name."""


@dataclass(frozen=True)
class Number:
    """A number that Python's types would round, by its text."""

    text: str


@dataclass(frozen=True)
class _Written:
    text: str


def read(text: str, *, unique: bool = False) -> Any:
    """Return the value of JSON text. Fractions and long integers are `Number`s. Of duplicate
    members the last one counts; with `unique` they are refused. Raises NotJson and
    DuplicateMember."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_members if unique else None,
            parse_int=_integer,
            parse_float=Number,
            parse_constant=_refuse_constant,
        )
    except DuplicateMember:
        raise
    except RecursionError as error:
        raise NotJson("it is nested too deeply") from error
    except ValueError as error:
        raise NotJson(str(error)) from error


def canonical(value: Any) -> str:
    """Return the canonical form. `value`: as `read` returns it."""
    parts: list[str] = []
    rest: list[Any] = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, _Written):
            parts.append(item.text)
        elif isinstance(item, dict):
            rest.append(_Written("}"))
            for at, name in reversed([*enumerate(sorted(item))]):
                rest += [item[name], _Written(f"{'{,'[at > 0]}{json.dumps(name)}:")]
            if not item:
                parts.append("{")
        elif isinstance(item, list):
            rest.append(_Written("]"))
            for at, each in reversed([*enumerate(item)]):
                rest += [each, _Written("[,"[at > 0])]
            if not item:
                parts.append("[")
        elif isinstance(item, Number):
            parts.append(canonical_number(item.text))
        elif isinstance(item, int) and not isinstance(item, bool):
            parts.append(canonical_number(str(item)))
        else:
            parts.append(json.dumps(item))
    return "".join(parts)


def canonical_number(text: str) -> str:
    """Return the same text for all spellings of one number. An exponent of more than MAX_DIGITS
    keeps its spelling."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise NotJson(f"{text!r} is not a number")
    sign, whole, fraction, exponent = found[1], found[2], found[3] or "", found[4] or "0"
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0"
    if len(exponent) > MAX_DIGITS:
        return text.lower()
    significant = digits.rstrip("0")
    power = int(exponent) - len(fraction) + len(digits) - len(significant)
    return f"{sign}{significant}e{power}" if power else f"{sign}{significant}"


def _integer(text: str) -> int | Number:
    return int(text) if len(text) <= MAX_DIGITS else Number(text)


def _members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    name = Counter(name for name, _ in pairs).most_common(1)[0][0]
    raise DuplicateMember(f"an object has the member {name[:MAX_SHOWN]!r} more than once")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
