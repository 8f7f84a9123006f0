"""Keys that sign receipts: HMAC-SHA-256 (RFC 2104) or Ed25519 (RFC 8032).

As text, a key is `ALGORITHM:BASE64`. `hmac:` and `ed25519:` sign and verify. `ed25519-public:`, the
public part of an Ed25519 key, only verifies, so it can be given to others.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Protocol

KEY_BYTES = 32
PUBLIC = "ed25519-public"


class InvalidReceiptKey(Exception):
    """The text is no key, or a package for its algorithm is missing. It never contains the key."""


class ReceiptKey(Protocol):
    algorithm: str

    @property
    def name(self) -> str:
        """Identifies the key in receipts; it does not disclose it."""

    def sign(self, data: bytes) -> bytes: ...

    def verifies(self, data: bytes, signature: bytes) -> bool: ...


@dataclass(frozen=True)
class HmacKey:
    secret: bytes
    algorithm = "hmac-sha256"

    @property
    def name(self) -> str:
        return _name(hmac.digest(self.secret, b"toolgate receipt key", hashlib.sha256))

    def sign(self, data: bytes) -> bytes:
        return hmac.digest(self.secret, data, hashlib.sha256)

    def verifies(self, data: bytes, signature: bytes) -> bool:
        return hmac.compare_digest(self.sign(data), signature)


@dataclass(frozen=True)
class Ed25519Key:
    public: bytes
    private: bytes | None = None
    algorithm = "ed25519"

    @property
    def name(self) -> str:
        return _name(self.public)

    def sign(self, data: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        assert self.private is not None, "a public key does not sign"
        return Ed25519PrivateKey.from_private_bytes(self.private).sign(data)

    def verifies(self, data: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, data)
        except InvalidSignature:
            return False
        return True


def read_key(text: str) -> ReceiptKey:
    """Read a key. Raises InvalidReceiptKey."""
    algorithm, _, encoded = text.strip().partition(":")
    if algorithm not in ("hmac", "ed25519", PUBLIC):
        raise InvalidReceiptKey(
            "A receipt key begins with `hmac:`, `ed25519:` or `ed25519-public:`. "
            "`toolgate audit --new-key ed25519` generates one."
        )
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidReceiptKey(f"The receipt key after `{algorithm}:` is not base64.") from error
    if len(data) < KEY_BYTES or (algorithm != "hmac" and len(data) != KEY_BYTES):
        raise InvalidReceiptKey(f"The receipt key after `{algorithm}:` needs {KEY_BYTES} bytes.")
    if algorithm == "hmac":
        return HmacKey(data)
    return Ed25519Key(data) if algorithm == PUBLIC else Ed25519Key(_public(data), data)


def new_key(algorithm: str) -> tuple[str, str]:
    """Return a new key, and the one that verifies: itself for HMAC. Raises InvalidReceiptKey."""
    if algorithm not in ("hmac", "ed25519"):
        raise InvalidReceiptKey("The algorithm of a receipt key is `hmac` or `ed25519`.")
    secret = secrets.token_bytes(KEY_BYTES)
    text = f"{algorithm}:{base64.b64encode(secret).decode()}"
    if algorithm == "hmac":
        return text, text
    return text, f"{PUBLIC}:{base64.b64encode(_public(secret)).decode()}"


def _public(private: bytes) -> bytes:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise InvalidReceiptKey(
            "Ed25519 keys need the package cryptography: pip install cryptography"
        ) from error
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def _name(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:16]
