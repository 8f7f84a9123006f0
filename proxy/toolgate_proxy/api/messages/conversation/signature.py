"""Signatures of thinking blocks: the sealed text of the thinking.

A client that continues a conversation sends thinking blocks back with their signatures. The text
is then verified, or restored if the client asked for blocks without it (`display: "omitted"`).
"""

from __future__ import annotations

import base64

from toolgate_core.errors import InvalidRequest

from ....sealing import OwnerSeal, SealBroken

PURPOSE = "thinking"


def sign(seal: OwnerSeal, text: str) -> str:
    sealed = seal.fingerprint(PURPOSE) + seal.seal(text.encode(), purpose=PURPOSE)
    return base64.b64encode(sealed).decode()


def verified(seal: OwnerSeal | None, text: str, signature: str, path: str) -> str | None:
    """The text of a thinking block; None if this fleet did not sign it: thinking of another model
    is no part of this model's conversation. Raises InvalidRequest if the block was changed."""
    if seal is None:
        return None
    try:
        sealed = base64.b64decode(signature, validate=True)
    except ValueError:
        return None
    fingerprint = seal.fingerprint(PURPOSE)
    if not sealed.startswith(fingerprint):
        return None
    try:
        original = seal.open(sealed.removeprefix(fingerprint), purpose=PURPOSE).decode()
    except SealBroken as error:
        raise InvalidRequest(
            f"{path + '.signature'!r} is invalid: it was changed, or it belongs to another API "
            "key. Send thinking blocks as they were received, or remove the block.",
            param=f"{path}.signature",
        ) from error
    if text and text != original:
        raise InvalidRequest(
            f"{path + '.thinking'!r} was changed, so it does not match its signature. Send "
            "thinking blocks as they were received, or remove the block.",
            param=f"{path}.thinking",
        )
    return original
