"""A compiled xgrammar grammar as text that a fleet can store: base64 of zlib of a key and JSON.

Whether a blob is genuine is the gateway's to check (it holds the fleet's secret). Here it only has
to be whole, of bounded size, and of the key it came under: anything else is a BlobRejected.
"""

from __future__ import annotations

import base64
import binascii
import zlib

from ..errors import BlobRejected

MAX_BYTES = 16 * 2**20
"""Of the decompressed text. The largest of 1,927 real ones has 1 MB; a bomb stops here."""
LEVEL = 1
"""zlib's fastest: five times smaller already, and inflating is what is paid on the way in."""


def pack(key: str, serialized: str) -> str | None:
    """None when it is too large to be loaded again."""
    text = f"{key}\n{serialized}".encode()
    if len(text) > MAX_BYTES:
        return None
    return base64.b64encode(zlib.compress(text, LEVEL)).decode()


def unpack(key: str, blob: str) -> str:
    """The serialised grammar. Raises BlobRejected."""
    inflate = zlib.decompressobj()
    try:
        packed = base64.b64decode(blob, validate=True)
        text = inflate.decompress(packed, MAX_BYTES)
        if not inflate.eof or inflate.unused_data:
            raise BlobRejected("cut short, too long, or with something behind it")
        named, _, serialized = text.decode().partition("\n")
    except (ValueError, binascii.Error, zlib.error) as error:
        raise BlobRejected(f"not a blob ({type(error).__name__})") from error
    if named != key:
        raise BlobRejected("the blob of another key")
    return serialized
