"""The reader of JSON that others send, with its bounds: the number of values before it is parsed,
its nesting, long integers, and JSON in texts."""

from __future__ import annotations

import json
import math
from itertools import chain
from typing import Any

import pydantic_core

from toolgate_core.errors import InvalidRequest, RequestTooLarge

MAX_VALUES = 500_000
"""Maximum number of JSON values in a body: 50 for each of 10,000 tools. A value of two bytes takes
a hundred bytes of memory once it is parsed, and the parser does not let other requests continue."""
MAX_DEPTH = 200
"""Maximum nesting of a body, in levels, as pydantic's parser has it. Schemas have a lower limit."""
JSON_TEXTS = ("arguments", "input", "json")
"""Members of objects in a body, but not of the body itself, whose texts are parsed as JSON. Their
values count as the body's."""
WITHOUT_TEXTS = ("tools", "functions")
"""Parameters whose texts are never parsed as JSON."""
LARGE = 1_000_000
"""Size in bytes from which bodies are only parsed by the parser that makes no copy of them."""
AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
LONG_INTEGER = b"0" * 19
"""The digits that an integer of more than 64 bits has at least."""
SEPARATORS = b",[{"
WINDOW = 2**14
"""Bytes in which separators are counted at once."""
BLOCK = 2**18
"""Bytes that are looked at together, without a copy of the whole text."""


class Excess(Exception):
    """What others sent exceeds a bound. The log has it in one line, without a traceback."""


def exceeds(content: bytes | bytearray, most: int) -> bool:
    """Return whether a JSON text has more than `most` values.

    Each value except the first one in an array or object follows a comma, so commas and opening
    brackets bound the number of values. Those inside strings are left out only if there are too
    many, because that takes longer."""
    if len(content) <= most or not _has_more(content, most):
        return False
    count, quotes, begun = 0, 0, b""
    for at in range(0, len(content), BLOCK):
        block = begun + content[at : at + BLOCK]
        begun = b"\\" * ((len(block) - len(block.rstrip(b"\\"))) % 2)  # of an escape sequence
        parts = block.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[quotes % 2 :: 2])
        count += sum(map(outside.count, (b",", b"[", b"{")))
        quotes += len(parts) - 1
        if count > most or quotes >= 4 * most:
            return True
    return False


def _has_more(content: bytes | bytearray, most: int) -> bool:
    """Return whether there are more than `most` separators. They are counted from one to the end of
    its window, because `find` passes a long text without any much faster than `count`."""
    count = 0
    for separator in SEPARATORS:
        at = content.find(separator)
        while at >= 0 and count <= most:
            count += content.count(separator, at, at + WINDOW)
            at = content.find(separator, at + WINDOW)
    return count > most


def read_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object of a body, within bounds. Raise InvalidRequest, RequestTooLarge."""
    values = _read(content)
    if not isinstance(values, dict):
        raise InvalidRequest("The body must be a JSON object.")
    check_texts(values)
    return values


def check_texts(values: dict[str, Any]) -> None:
    """Check the number of values in the JSON texts of a body. Raise RequestTooLarge."""
    values_left = MAX_VALUES
    waiting = [value for name, value in values.items() if name not in WITHOUT_TEXTS]
    while waiting:
        inner = waiting.pop()
        if type(inner) is dict:
            if "arguments" in inner or "input" in inner or "json" in inner:
                values_left = _without_texts(inner, values_left)
            waiting += inner.values()
        elif type(inner) is list:
            waiting += inner


def _without_texts(value: dict[str, Any], most: int) -> int:
    """Return `most` without the values of JSON texts. Raise RequestTooLarge if they have more."""
    for name in JSON_TEXTS:
        text = value.get(name)
        count = sum(map(text.count, ",[{")) if isinstance(text, str) else 0
        if count > most and exceeds(str(text).encode(errors="replace"), most):
            raise RequestTooLarge(
                f"The arguments of the body's calls have more than {MAX_VALUES:,} JSON values. "
                "Send fewer or shorter ones."
            )
        most -= min(count, most)
    return most


def _read(content: bytes) -> Any:
    """Return the JSON value of a body. Raise InvalidRequest and RequestTooLarge."""
    if exceeds(content, MAX_VALUES):
        raise RequestTooLarge(
            f"The body has more than {MAX_VALUES:,} JSON values. Send fewer messages, tools or "
            "other entries."
        )
    has_long = LONG_INTEGER in content.translate(AS_ZEROS)
    try:
        # Refuses more than MAX_DEPTH levels, and does not copy its input.
        read = pydantic_core.from_json(content, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        try:
            # Accepts lone surrogates, NaN, and the other encodings of JSON.
            read, has_long = None if len(content) > LARGE else json.loads(content), True
        except (ValueError, RecursionError):
            read = None
        if read is None:
            raise InvalidRequest("The body is not valid JSON.") from error
        check_nesting(read)
    return _without_long_integers(read) if has_long else read


def check_nesting(value: object) -> None:
    """Raise InvalidRequest for a value with more than MAX_DEPTH levels that are not empty."""
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH + 1):
        inner = chain.from_iterable(v.values() if isinstance(v, dict) else v for v in level)
        level = [each for each in inner if isinstance(each, dict | list) and each]
        if not level:
            return
    raise InvalidRequest(
        f"The body has more than {MAX_DEPTH} levels of nested JSON. Use a flatter structure."
    )


def _without_long_integers(value: Any) -> Any:
    """Return the value with floats in place of integers of more than 64 bits, which orjson cannot
    write. Bounds of a schema become no wider. Raise InvalidRequest for those that are too large for
    floats, and for values of an `enum` or `const` that no float is equal to."""
    waiting = [("", value)]
    while waiting:
        name, parent = waiting.pop()
        named = parent.items() if isinstance(parent, dict) else ()
        members = [*named, *(enumerate(parent) if isinstance(parent, list) else ())]
        for at, member in members:
            place = at if isinstance(at, str) else name
            if isinstance(member, dict | list):
                waiting.append((place, member))
            elif isinstance(member, int) and not -(2**63) <= member < 2**64:
                parent[at] = _as_float(member, place)
    return value


def _as_float(number: int, place: str) -> float:
    try:
        nearest = float(number)
    except OverflowError as error:
        raise InvalidRequest(
            "The body has a number that is too large. Use a smaller one."
        ) from error
    if place in ("enum", "const") and nearest != number:
        raise InvalidRequest(
            f"`{place}` has the integer {number}, which has more than 64 bits. Use a string, or an "
            "integer of 64 bits."
        )
    if place in ("maximum", "exclusiveMaximum") and nearest > number:
        return math.nextafter(nearest, -math.inf)
    if place in ("minimum", "exclusiveMinimum") and nearest < number:
        return math.nextafter(nearest, math.inf)
    return nearest
