"""Which hints a completion still needs: the members that it has not written yet."""

from __future__ import annotations

from toolgate_core.wire import Hints

from .scan import Scan

_QUOTE, _BACKSLASH, _BRACKET = b'"\\['
_BEFORE_MEMBERS = (None, *b"{,")


class Needs:
    """The hints that remain in one search. Each object has a member once, so a name that was
    written is left out until the object ends."""

    def __init__(self, hints: Hints) -> None:
        self.names, self.texts = hints.names, hints.texts
        self.longest = ""
        """The longest text of the hints that was written."""
        self.opened = False
        """Whether the text ends with the quotation mark that opens a string."""
        self._written: list[set[str]] = [set()]
        self._brackets: list[int | None] = [None]
        """The opening brackets around the position. The outermost one is not known."""
        self._last: int | None = None
        """The last character outside strings, except white space and an opening quotation mark;
        None if it is not known."""

    @property
    def may_begin_member(self) -> bool:
        """Whether JSON allows a member here, or the name of a member whose quotation mark is
        written already; true if that is not known."""
        return self._last in _BEFORE_MEMBERS and self._brackets[-1] != _BRACKET

    def use(self, text: str) -> None:
        self.longest = max(self.longest, text, key=len)

    def is_written(self, name: str) -> bool:
        """Whether the object has a member of this name already."""
        return name in self._written[-1]

    def write(self, name: str) -> None:
        self._written[-1].add(name)

    def follow(self, text: bytes, scan: Scan) -> None:
        """Advance by `text`, which begins at `scan`."""
        in_string, escaped = scan.in_string, scan.escaped
        for byte in text:
            self.opened = byte == _QUOTE and not in_string
            if escaped:
                escaped = False
            elif byte == _QUOTE:
                in_string = not in_string
                if not in_string:
                    self._last = byte
            elif in_string:
                escaped = byte == _BACKSLASH
            elif byte in b"{[":
                self._written.append(set())
                self._brackets.append(byte)
                self._last = byte
            elif byte in b"}]":
                self._written = self._written[:-1] or [set()]
                self._brackets = self._brackets[:-1] or [None]
                self._last = byte
            elif byte not in b" \n\r\t":
                self._last = byte
