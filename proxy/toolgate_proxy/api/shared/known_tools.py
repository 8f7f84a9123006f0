"""What was read of the tools of earlier requests. Clients send the same tools with every request,
and to read a tool anew takes ten times as long as to find it here."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import orjson

from toolgate_core.errors import InvalidRequest

MAX_LENGTH, MAX_BYTES = 16_000, 8_000_000
"""Most bytes of the JSON of a tool that is kept, and of all. What was read takes about twenty times
as much memory."""

T = TypeVar("T")


class KnownTools:
    def __init__(self) -> None:
        self._read: dict[Hashable, dict[bytes, Any]] = {}
        self._bytes = 0

    def find(
        self, kind: Hashable, entry: object, read: Callable[..., T], *arguments: str
    ) -> T | None:
        """Return what `read` returns for an entry of `tools`, and for the arguments. It must depend
        on the entry and on `kind` alone, and nobody may change it. Return None for an entry that is
        invalid or too large."""
        try:
            text = orjson.dumps(entry)
            found = self._read.get(kind, {}).get(text)
            if found is None:
                if len(text) > MAX_LENGTH:
                    return None
                given = orjson.loads(text)
                found = read(given, *arguments), given if b"null" in text else None
                self._keep(kind, text, found)
        except (InvalidRequest, RecursionError, TypeError, ValueError):
            return None
        known: T = found[0]
        # A number that is not finite is written as null, too.
        return known if found[1] is None or found[1] == entry else None

    def _keep(self, kind: Hashable, text: bytes, found: Any) -> None:
        size = len(text) + len(str(kind))
        if self._bytes + size > MAX_BYTES:
            self._read, self._bytes = {}, 0
        self._read.setdefault(kind, {})[text] = found
        self._bytes += size


KNOWN = KnownTools()
