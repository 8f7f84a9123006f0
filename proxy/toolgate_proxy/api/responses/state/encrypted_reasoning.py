"""`encrypted_content` of reasoning items: the reasoning's text, which only the owner's requests
can send back. Clients that store nothing here keep it between the turns."""

from __future__ import annotations

import base64

from ....sealing import OwnerSeal, SealBroken

PURPOSE = "responses reasoning"
INCLUDE = "reasoning.encrypted_content"


def encrypt(seal: OwnerSeal, text: str) -> str:
    return base64.b64encode(seal.seal(text.encode(), purpose=PURPOSE)).decode()


def decrypted(seal: OwnerSeal | None, encrypted: str) -> str | None:
    """The text; None if it was changed, or encrypted for another key or by another service."""
    if seal is None:
        return None
    try:
        return seal.open(base64.b64decode(encrypted, validate=True), purpose=PURPOSE).decode()
    except (SealBroken, ValueError):
        return None
