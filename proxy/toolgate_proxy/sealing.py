"""Protects what the gateway gives away: responses and grammars in Redis, reasoning at clients.

All keys are derived from one secret of the fleet, one for each purpose. Sealed data is encrypted
and authenticated with AES-256-GCM (NIST SP 800-38D), and opens only for the purpose and the owner
that it was sealed for. Virtual keys have a secret of their own (keys/key.py), which outlives
that of a fleet.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from .settings import Settings

NONCE_BYTES = 12
VERSION = b"\x01"
MASTER_KEY = "master key"
"""The owner of what the master key creates."""


class SealBroken(Exception):
    """The data was not sealed by this fleet for this purpose and owner, or it was changed."""


class Sealer:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @staticmethod
    def is_shared(settings: Settings) -> bool:
        """Return whether other processes with these settings have the same secret."""
        return settings.fleet_secret is not None or settings.backend_key is not None

    @classmethod
    def from_settings(cls, settings: Settings) -> Sealer:
        """Use the fleet secret, or a secret derived from the backends' key. Without either, the
        secret is random: nothing opens in another process or after a restart."""
        if settings.fleet_secret is not None:
            return cls(settings.fleet_secret.get_secret_value().encode())
        if settings.backend_key is not None:
            key = settings.backend_key.get_secret_value().encode()
            return cls(hmac.digest(key, b"toolgate sealing", hashlib.sha256))
        return cls(secrets.token_bytes(32))

    def seal(self, data: bytes, *, purpose: str, owner: str) -> bytes:
        """`purpose` names the kind of data; `owner` the key or team that may open it."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return VERSION + nonce + self._cipher(purpose).encrypt(nonce, data, _bound(owner))

    def open(self, sealed: bytes, *, purpose: str, owner: str) -> bytes:
        """Raise SealBroken."""
        start = len(VERSION)
        nonce, rest = sealed[start : start + NONCE_BYTES], sealed[start + NONCE_BYTES :]
        if not sealed.startswith(VERSION) or len(nonce) < NONCE_BYTES:
            raise SealBroken("This is not sealed data.")
        try:
            return self._cipher(purpose).decrypt(nonce, rest, _bound(owner))
        except InvalidTag as error:
            raise SealBroken("The data was changed, or sealed for another owner.") from error

    def digest(self, text: str, *, purpose: str) -> str:
        """32 hexadecimal digits that stand for `text` in names. They tell nothing about it without
        the secret."""
        message = b"toolgate digest\0" + purpose.encode() + b"\0"
        message += text.encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, message, hashlib.sha256).hex()[:32]

    def _cipher(self, purpose: str) -> AESGCM:
        key = hmac.digest(self._secret, b"toolgate seal\0" + purpose.encode(), hashlib.sha256)
        return AESGCM(key)


@dataclass(frozen=True)
class OwnerSeal:
    """Seals data for one owner."""

    sealer: Sealer
    owner: str

    def seal(self, data: bytes, *, purpose: str) -> bytes:
        return self.sealer.seal(data, purpose=purpose, owner=self.owner)

    def open(self, sealed: bytes, *, purpose: str) -> bytes:
        """Raise SealBroken."""
        return self.sealer.open(sealed, purpose=purpose, owner=self.owner)

    def seal_text(self, text: str, *, purpose: str) -> str:
        """Return the sealed text in base64, for a member of a JSON object."""
        return base64.b64encode(self.seal(text.encode(), purpose=purpose)).decode()

    def open_text(self, sealed: str, *, purpose: str) -> str | None:
        """Return the text; None if it was changed, or sealed for another owner or elsewhere."""
        try:
            return self.open(base64.b64decode(sealed, validate=True), purpose=purpose).decode()
        except (SealBroken, ValueError):
            return None


def _bound(owner: str) -> bytes:
    return VERSION + owner.encode()
