"""Server-sent events, as much of them as a backend writes: one JSON object a `data:` line."""

from __future__ import annotations


class SseParser:
    """Bytes in, in pieces of any size; the payloads of the `data:` lines they complete out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Comments (keep-alives), blank lines and other fields are passed over."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line[len(b"data:") :].strip() for line in lines if line.startswith(b"data:")]
