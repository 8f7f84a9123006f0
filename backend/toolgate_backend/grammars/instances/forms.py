"""The text of a JSON value, with the place of each part in the value.

A model writes a value in its own order of members, with its own white space and its own notation of
numbers. The forms here are those that a grammar may or may not allow.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from toolgate_core.pointer import escape

from .order import ordered


@dataclass(frozen=True)
class Form:
    """How a value is written."""

    name: str
    separators: tuple[str, str] = (", ", ": ")
    shuffled: bool = False
    plain_numbers: bool = False
    """Numbers without exponents and without `.0`."""
    schema_order: bool = False


GIVEN = Form("given")
SHUFFLED = Form("shuffled", shuffled=True)
COMPACT = Form("compact", separators=(",", ":"))
FORMS = (GIVEN, SHUFFLED, COMPACT)
CANONICAL = Form("canonical", plain_numbers=True, schema_order=True)
"""One line, with the schema's order of members. Grammars with fixed white space write this form."""


@dataclass
class Text:
    """A text and its parts: (begin, end, JSON Pointer) of each value and member name, in bytes. A
    separator is part of what follows it."""

    data: bytes = b""
    spans: list[tuple[int, int, str]] = field(default_factory=list)

    def pointer_at(self, offset: int) -> str:
        """The JSON Pointer of the innermost part at a byte."""
        inside = [span for span in self.spans if span[0] <= offset < span[1]]
        return min(inside, key=lambda span: span[1] - span[0])[2] if inside else ""


def written(value: Any, form: Form, schema: Any, seed: int = 0) -> Text:
    """`schema`: the schema whose order of members `schema_order` means."""
    if form.schema_order:
        value = ordered(value, schema)
    if form.shuffled:
        value = _shuffled(value, random.Random(seed))  # noqa: S311  seeded, for repeatable instances
    text = Text()
    parts = bytearray()
    for part in _parts(value, form, "", text, parts):
        parts += part.encode("utf-8", "surrogatepass")
    return replace(text, data=bytes(parts))


def spelled(value: Any, schema: Any) -> str:
    """A value in canonical form, by the schema that the engine was given."""
    return written(value, CANONICAL, schema).data.decode("utf-8", "surrogatepass")


def _parts(value: Any, form: Form, pointer: str, text: Text, parts: bytearray) -> Iterator[str]:
    begin = len(parts)
    if isinstance(value, dict):
        yield "{"
        for at, (name, member) in enumerate(value.items()):
            inside = f"{pointer}/{escape(name)}"
            named = len(parts)
            if at:
                yield form.separators[0]
            yield json.dumps(name, ensure_ascii=False)
            text.spans.append((named, len(parts), inside))
            yield form.separators[1]
            yield from _parts(member, form, inside, text, parts)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for at, item in enumerate(value):
            if at:
                text.spans.append(
                    (len(parts), len(parts) + len(form.separators[0]), f"{pointer}/{at}")
                )
                yield form.separators[0]
            yield from _parts(item, form, f"{pointer}/{at}", text, parts)
        yield "]"
    else:
        yield _scalar(value, form)
    text.spans.append((begin, len(parts), pointer))


def _scalar(value: Any, form: Form) -> str:
    if isinstance(value, float) and form.plain_numbers:
        return format(Decimal(repr(value)).normalize(), "f")
    return json.dumps(value, ensure_ascii=False)


def _shuffled(value: Any, dice: random.Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        dice.shuffle(names)
        return {name: _shuffled(value[name], dice) for name in names}
    if isinstance(value, list):
        return [_shuffled(item, dice) for item in value]
    return value
