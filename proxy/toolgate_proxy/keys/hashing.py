"""Keys as they are handed out, and the keyed hash that is all the gateway ever stores of one."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from pydantic import SecretStr

PREFIX = "sk-tg-"
RANDOM_BYTES = 32
SHORTEST, LONGEST = 16, 512
"""Characters that a key may have: none longer is hashed, and none shorter may be imported."""


def new_key() -> str:
    """`sk-tg-` and 256 random bits."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def hint(key: str) -> str:
    """What a key may be recognised by: its beginning and its last four characters."""
    beginning = PREFIX if key.startswith(PREFIX) else key[:3]
    return f"{beginning}…{key[-4:]}"


class Hasher:
    """HMAC-SHA256 under the gateway's secret.

    Without the secret nobody can tell from a hash whether a guess is right, nor make the hash of a
    key of his own. It also makes looking a key up safe against timing: how long a dictionary takes
    depends on the hash, and what hash a guess will have only we know.
    """

    def __init__(self, secret: SecretStr) -> None:
        self._secret = secret.get_secret_value().encode()

    def hash(self, key: str) -> str:
        """64 hexadecimal digits."""
        return self._digest(b"toolgate key\n", key.encode("utf-8", "surrogatepass"))

    def seal(self, key_id: str, record: bytes) -> bytes:
        """The record with its MAC before it, so that who can write to Redis can't lift a limit."""
        return self._mac(key_id, record) + b"\n" + record

    def open(self, key_id: str, sealed: bytes) -> bytes | None:
        """What was sealed for that id, or None."""
        mac, _, record = sealed.partition(b"\n")
        return record if hmac.compare_digest(mac, self._mac(key_id, record)) else None

    def _mac(self, key_id: str, record: bytes) -> bytes:
        return self._digest(b"toolgate key record\n", key_id.encode() + b"\n" + record).encode()

    def _digest(self, purpose: bytes, message: bytes) -> str:
        return hmac.digest(self._secret, purpose + message, hashlib.sha256).hex()
