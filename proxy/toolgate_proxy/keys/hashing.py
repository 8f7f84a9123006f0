"""API keys, and the keyed hashes of them that the gateway stores."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from pydantic import SecretStr

PREFIX = "sk-tg-"
RANDOM_BYTES = 32
MIN_LENGTH, MAX_LENGTH = 16, 512
"""Characters. Shorter keys can't be imported. Longer keys are refused without hashing them."""


def new_key() -> str:
    """`sk-tg-` and 256 random bits."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def hint(key: str) -> str:
    """A text to recognise a key by: its beginning and its last four characters."""
    beginning = PREFIX if key.startswith(PREFIX) else key[:3]
    return f"{beginning}…{key[-4:]}"


class Hasher:
    """HMAC-SHA256 with the gateway's secret, TOOLGATE_KEY_SECRET.

    Without the secret, a hash neither confirms a guessed key nor can one be made for a new key. It
    also prevents timing attacks on the lookup: its duration depends on the hash, and an attacker
    can't predict the hash of a guess.
    """

    def __init__(self, secret: SecretStr) -> None:
        self._secret = secret.get_secret_value().encode()

    def hash(self, key: str) -> str:
        """64 hexadecimal digits."""
        return self._digest(b"toolgate key\n", key.encode("utf-8", "surrogatepass"))

    def seal(self, key_id: str, record: bytes) -> bytes:
        """The record after its MAC. Write access to Redis is not enough to change a record."""
        return self._mac(key_id, record) + b"\n" + record

    def open(self, key_id: str, sealed: bytes) -> bytes | None:
        """The record; None if it was not sealed with this secret for that id."""
        mac, _, record = sealed.partition(b"\n")
        return record if hmac.compare_digest(mac, self._mac(key_id, record)) else None

    def _mac(self, key_id: str, record: bytes) -> bytes:
        return self._digest(b"toolgate key record\n", key_id.encode() + b"\n" + record).encode()

    def _digest(self, purpose: bytes, message: bytes) -> str:
        return hmac.digest(self._secret, purpose + message, hashlib.sha256).hex()
