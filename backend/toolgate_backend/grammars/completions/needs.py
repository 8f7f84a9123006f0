"""Which hints a completion still needs: the members that it has not written yet."""

from __future__ import annotations

from collections.abc import Sequence

from .hints import Hints
from .scan import Scan


class Needs:
    """The hints that remain in one search. Each object has a member once, so a name that was
    written is left out until the object ends."""

    def __init__(self, hints: Hints) -> None:
        self._names, self.texts = hints.names, hints.texts
        self.opened = False
        """Whether the text ends with the quotation mark that opens a string."""
        self._written: list[set[str]] = [set()]

    @property
    def names(self) -> Sequence[str]:
        return [name for name in self._names if name not in self._written[-1]]

    def write(self, name: str) -> None:
        self._written[-1].add(name)

    def follow(self, text: bytes, scan: Scan) -> None:
        """Advance by `text`, which begins at `scan`."""
        self.opened = not scan.in_string and text.endswith(b'"') and text.count(b'"') % 2 == 1
        for at, byte in enumerate(text):
            if scan.in_string:
                pass
            elif byte in b"{[":
                self._written.append(set())
            elif byte in b"}]":
                self._written.pop()
                self._written = self._written or [set()]
            scan = scan.after(text[at : at + 1])
