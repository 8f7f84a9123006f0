"""Compacted conversations in the hands of clients: sealed, so that only their owner's requests can
send them back."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict

from ...sealing import OwnerSeal, SealBroken
from .compacted import Compacted

PURPOSE = "compaction"


def sealed(made: Compacted, seal: OwnerSeal | None) -> str:
    """Return the conversation in base64; an empty text without a seal."""
    if seal is None:
        return ""
    data = zlib.compress(json.dumps(asdict(made), separators=(",", ":")).encode())
    return base64.b64encode(seal.seal(data, purpose=PURPOSE)).decode()


def opened(text: object, seal: OwnerSeal | None) -> Compacted | None:
    """Return the conversation; None if it was changed, or sealed for another key or by another
    service."""
    if seal is None or not isinstance(text, str):
        return None
    try:
        data = seal.open(base64.b64decode(text, validate=True), purpose=PURPOSE)
    except (SealBroken, ValueError):
        return None
    values = json.loads(zlib.decompress(data))
    return Compacted(**{**values, "recent": tuple(values["recent"])})
