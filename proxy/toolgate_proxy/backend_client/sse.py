"""Parser of server-sent events (WHATWG HTML, section 9.2), for `data:` lines."""

from __future__ import annotations


class SseParser:
    """Takes bytes in parts of any size and returns the payloads of completed `data:` lines."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The parts of the line that is not complete yet."""
        self.pending = 0
        """Bytes of that line."""

    def feed(self, data: bytes) -> list[bytes]:
        """Skips comments (keep-alives), blank lines and other fields."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
            self.pending = 0
        if rest:
            self._rest.append(rest)
            self.pending += len(rest)
        return [line[len(b"data:") :].strip() for line in lines if line.startswith(b"data:")]
