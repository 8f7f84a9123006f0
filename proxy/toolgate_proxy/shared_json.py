"""JSON that many responses have in common, so that it is written once."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

MARK = secrets.token_hex()
"""Stands for the JSON of a list. Clients don't know it."""
NESTED = ("response", "body", "start")
"""Members of events and records that are responses."""


class SharedText:
    """`text`: JSON in UTF-8. What was made of it is kept with it."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._made: dict[Callable[[bytes], bytes], bytes] = {}

    def made(self, make: Callable[[bytes], bytes]) -> bytes:
        """Return what `make` makes of the text."""
        if make not in self._made:
            self._made[make] = make(self.text)
        return self._made[make]


Part = bytes | SharedText


class WrittenList(list[Any]):
    """A list and its JSON, of which some was written before. Nobody changes it."""

    def __init__(self, values: Iterable[Any], parts: Sequence[Part]) -> None:
        super().__init__(values)
        self.parts = parts


def json_parts(value: Mapping[str, Any], dumps: Callable[[object], bytes]) -> list[Part]:
    """Return the JSON of an object, with the parts of a WrittenList that it has, or that a response
    in it has. `dumps` writes the rest."""
    for name, member in value.items():
        if isinstance(member, WrittenList):
            inner = [*member.parts]
        elif name in NESTED and isinstance(member, Mapping):
            inner = json_parts(member, dumps)
        else:
            continue
        before, _, after = dumps({**value, name: MARK}).partition(f'"{MARK}"'.encode())
        return [before, *inner, after]
    return [dumps(value)]


def plain(part: Part) -> bytes:
    return part.text if isinstance(part, SharedText) else part
