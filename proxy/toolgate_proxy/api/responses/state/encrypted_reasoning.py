"""`encrypted_content` of reasoning items: the reasoning's text, which only the owner's requests
can send back. Clients that store nothing here keep it between the turns."""

from __future__ import annotations

import base64
import binascii

from toolgate_core.errors import InvalidRequest

from ....sealing import OwnerSeal, SealBroken

PURPOSE = "responses reasoning"
INCLUDE = "reasoning.encrypted_content"


def encrypt(seal: OwnerSeal, text: str) -> str:
    return base64.b64encode(seal.seal(text.encode(), purpose=PURPOSE)).decode()


def decrypt(seal: OwnerSeal | None, encrypted: str, path: str) -> str:
    """Raises InvalidRequest if it was changed, or made for another key or by another fleet."""
    try:
        if seal is None:
            raise SealBroken
        return seal.open(base64.b64decode(encrypted, validate=True), purpose=PURPOSE).decode()
    except (SealBroken, binascii.Error, ValueError) as error:
        raise InvalidRequest(
            f"{path!r} can't be decrypted: it was changed, or made for another API key or by "
            "another service. Remove it.",
            param=path,
        ) from error
