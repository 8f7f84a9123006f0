"""Parser of server-sent events (WHATWG HTML, section 9.2), for `data:` lines."""

from __future__ import annotations


class SseParser:
    """Takes bytes in parts of any size and returns the payloads of completed `data:` lines."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def pending(self) -> int:
        """Bytes of the line that is not complete yet."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Skips comments (keep-alives), blank lines and other fields."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line[len(b"data:") :].strip() for line in lines if line.startswith(b"data:")]
