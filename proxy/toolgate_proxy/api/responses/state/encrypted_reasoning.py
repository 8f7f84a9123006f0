"""`encrypted_content` of reasoning items: the reasoning's text, which only the owner's requests
can send back. Clients that store nothing here keep it between the turns."""

from __future__ import annotations

from ....sealing import OwnerSeal

PURPOSE = "responses reasoning"
INCLUDE = "reasoning.encrypted_content"


def encrypt(seal: OwnerSeal, text: str) -> str:
    return seal.seal_text(text, purpose=PURPOSE)


def decrypted(seal: OwnerSeal | None, encrypted: str) -> str | None:
    """Return the text; None if it was changed, or encrypted for another key or service."""
    return None if seal is None else seal.open_text(encrypted, purpose=PURPOSE)
