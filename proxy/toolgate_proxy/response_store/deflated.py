"""zlib streams of texts, parts of which were compressed before (RFC 1950, RFC 1951)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from ..shared_json import Part, SharedText

LEVEL = 1
"""zlib's fastest level. Higher ones save a few percent."""
CHECKSUM = 4
"""Bytes of the checksum at the end of a stream."""


def deflated(parts: Sequence[Part]) -> bytes:
    """Return the stream of a text. Blocks of a SharedText are the same in all streams."""
    stream, made, checksum = zlib.compressobj(LEVEL), list[bytes](), zlib.adler32(b"")
    for part in parts:
        if isinstance(part, SharedText):
            # Nothing after a full flush refers to what is before it.
            made += (stream.flush(zlib.Z_FULL_FLUSH), part.made(_blocks))
            checksum = zlib.adler32(part.text, checksum)
        else:
            made.append(stream.compress(part))
            checksum = zlib.adler32(part, checksum)
    made += (stream.flush()[:-CHECKSUM], checksum.to_bytes(CHECKSUM, "big"))
    return b"".join(made)


def _blocks(text: bytes) -> bytes:
    """Return a text as blocks that can be between others."""
    stream = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS)
    return stream.compress(text) + stream.flush(zlib.Z_FULL_FLUSH)
