"""Blobs: compiled xgrammar grammars as text, for the gateway's Redis.

A blob is the base64 of a zlib stream, which contains the grammar's key and its JSON. The gateway
verifies that a blob is genuine, because it has the fleet's secret. This module only verifies that a
blob is complete, of limited size, and of the expected key. Otherwise it raises BlobRejected.
"""

from __future__ import annotations

import base64
import binascii
import zlib

from ..errors import BlobRejected

MAX_BYTES = 16 * 2**20
"""Maximum size of the decompressed text; protects against decompression bombs. The largest of 1,927
real grammars has 1 MB."""
COMPRESSION_LEVEL = 1
"""zlib's fastest level. It already reduces the size to a fifth, and only decompression is on the
path of a request."""


def pack(key: str, serialized: str) -> str | None:
    """Return the blob; None if the grammar is too large to be loaded again."""
    text = f"{key}\n{serialized}".encode()
    if len(text) > MAX_BYTES:
        return None
    return base64.b64encode(zlib.compress(text, COMPRESSION_LEVEL)).decode()


def unpack(key: str, blob: str) -> str:
    """Return the serialized grammar. Raise BlobRejected."""
    decompressor = zlib.decompressobj()
    try:
        packed = base64.b64decode(blob, validate=True)
        text = decompressor.decompress(packed, MAX_BYTES)
        if not decompressor.eof or decompressor.unused_data:
            raise BlobRejected("the blob is truncated, too large, or has trailing data")
        packed_key, _, serialized = text.decode().partition("\n")
    except (ValueError, binascii.Error, zlib.error) as error:
        raise BlobRejected(
            f"the blob is not zlib data in base64 ({type(error).__name__})"
        ) from error
    if packed_key != key:
        raise BlobRejected("the blob belongs to another grammar key")
    return serialized
