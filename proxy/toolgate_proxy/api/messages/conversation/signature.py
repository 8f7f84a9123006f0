"""Signatures of thinking blocks: the sealed text of the thinking.

A client that continues a conversation sends thinking blocks back with their signatures. The text
is then verified, or restored if the client asked for blocks without it (`display: "omitted"`).
"""

from __future__ import annotations

from toolgate_core.errors import InvalidRequest

from ....sealing import OwnerSeal

PURPOSE = "thinking"


def sign(seal: OwnerSeal, text: str) -> str:
    return seal.seal_text(text, purpose=PURPOSE)


def verified(seal: OwnerSeal | None, text: str, signature: str, path: str) -> str | None:
    """The text of a thinking block; None if its signature is not one for this owner: thinking of
    another model or key is no part of this conversation. Raises InvalidRequest if the text was
    changed, as Anthropic does."""
    original = None if seal is None else seal.open_text(signature, purpose=PURPOSE)
    if text and original is not None and text != original:
        raise InvalidRequest(
            f"{path + '.thinking'!r} was changed, so it does not match its signature. Send "
            "thinking blocks as they were received, or remove the block.",
            param=f"{path}.thinking",
        )
    return original
