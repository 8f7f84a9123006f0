"""Large WebSocket frames as fragments.

websockets keeps a frame until its end and then copies it twice: out of its buffer, and to unmask
it. A frame of 31 MB would need three times as much memory. As fragments it is unmasked while it
arrives, and is copied once.
"""

from __future__ import annotations

PIECE = 65_536
"""Maximum size of the content of a fragment, in bytes: a multiple of the 4 bytes of a mask, so that
the mask begins anew with each fragment."""
FIN, RESERVED, OPCODE = 0x80, 0x70, 0x0F
CONTROL = 0x08
"""Bit of the opcodes of control frames, which may not be fragments."""
MASKED = 0x80
EXTENDED = {126: 2, 127: 8}
"""Bytes of the length that follow, by the length in the second byte."""


class FramePieces:
    """Rewrites what a client sends. `largest`: size of a message, above which a frame is left as it
    is, so that websockets refuses it at its beginning. So are frames that are not masked."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._header = bytearray()
        """The beginning of a header that has not arrived completely."""
        self._left = 0
        """Bytes of the current piece that have not arrived."""
        self._later = 0
        """Bytes of the current frame after that piece."""
        self._first = 0
        """First byte of the current frame's header."""
        self._mask = b""

    def rewritten(self, data: bytes) -> bytes:
        written = bytearray()
        at = 0
        while at < len(data):
            if self._left:
                passed = data[at : at + self._left]
                written += passed
                at += len(passed)
                self._left -= len(passed)
            elif self._later:
                written += self._piece(0)
            else:
                self._header.append(data[at])
                at += 1
                written += self._begun()
        return bytes(written)

    def _begun(self) -> bytes:
        """The header of the frame or of its first fragment, once it has arrived completely."""
        header = self._header
        if len(header) < 2:
            return b""
        short = header[1] & ~MASKED
        extended = EXTENDED.get(short, 0)
        masked = 4 if header[1] & MASKED else 0
        if len(header) < 2 + extended + masked:
            return b""
        size = int.from_bytes(header[2 : 2 + extended]) if extended else short
        self._header = bytearray()
        self._first = header[0]
        if not masked or size <= PIECE or size > self._largest or self._first & CONTROL:
            self._left = size
            return bytes(header)
        self._mask, self._later = bytes(header[-4:]), size
        return self._piece(self._first & (RESERVED | OPCODE))

    def _piece(self, first: int) -> bytes:
        """The header of the next fragment. `first`: its first byte, without the bit of the end."""
        self._left = min(self._later, PIECE)
        self._later -= self._left
        if not self._later:
            first |= self._first & FIN
        # websockets reads the long form of the length for any size.
        return bytes([first, MASKED | 127]) + self._left.to_bytes(8) + self._mask
