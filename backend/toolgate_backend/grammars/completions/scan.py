"""Where a text ends in JSON: inside a string or outside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scan:
    """Whether the JSON text so far ends inside a string, and whether its last character is a
    backslash."""

    in_string: bool = False
    escaped: bool = False

    def after(self, text: bytes) -> Scan:
        if b'"' not in text and b"\\" not in text:
            return Scan(self.in_string) if self.escaped and text else self
        in_string, escaped = self.in_string, self.escaped
        for byte in text:
            if escaped:
                escaped = False
            elif in_string and byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = not in_string
        return Scan(in_string, escaped)
