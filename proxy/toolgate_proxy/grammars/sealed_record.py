"""Record of one grammar in the shared cache, and the signature (seal) that protects it.

A sealed record is `toolgate/<version> <HMAC-SHA256, hex>`, a line feed, and JSON. The HMAC covers
version, grammar key and JSON, so a record can't be moved to another key or read as another version.
JSON is parsed only after its seal has been verified.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from toolgate_core import wire

from ..settings import Settings

VERSION = 2
"""2: verdicts contain residual keywords. Records of version 1 would be read as having none."""


class BadRecord(Exception):
    """The record is rejected. `reason`, for metrics: form, version, signature or content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class GrammarRecord(BaseModel):
    """A tool, so that it can be sent to other backends, and a backend's verdict on its grammar. The
    verdict contains the engine and the reason for its choice, ready or refused, residual keywords
    and compile time. It contains the compiled grammar if loading is faster than compiling."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    parameters: dict[str, Any]
    verdict: wire.GrammarVerdict

    @property
    def key(self) -> str:
        return self.verdict.key

    def without_blob(self) -> GrammarRecord:
        verdict = self.verdict.model_copy(update={"blob": None})
        return self.model_copy(update={"verdict": verdict})


class Seal:
    """Seals and opens records with the secret that all gateways share."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def from_settings(cls, settings: Settings) -> Seal | None:
        """Use the fleet secret, or a secret derived from the backends' key, whose owner may load
        grammars anyway. Returns None without either."""
        if settings.fleet_secret is not None:
            return cls(settings.fleet_secret.get_secret_value().encode())
        if settings.backend_key is not None:
            key = settings.backend_key.get_secret_value().encode()
            return cls(hmac.digest(key, b"toolgate fleet cache", hashlib.sha256))
        return None

    def close(self, record: GrammarRecord) -> bytes:
        # `json` escapes lone surrogates in ASCII. pydantic's serializer fails on them.
        body = json.dumps(
            record.model_dump(exclude_none=True), separators=(",", ":"), allow_nan=False
        ).encode()
        return _head(VERSION) + self._mac(VERSION, record.key, body) + b"\n" + body

    def open(self, key: str, sealed: bytes) -> GrammarRecord:
        """Open a sealed record. Raises BadRecord."""
        head, newline, body = sealed.partition(b"\n")
        name, _, mac = head.partition(b" ")
        if not newline or not name.startswith(b"toolgate/"):
            raise BadRecord("form")
        if name + b" " != _head(VERSION):
            raise BadRecord("version")
        if not hmac.compare_digest(mac, self._mac(VERSION, key, body)):
            raise BadRecord("signature")
        try:
            record = GrammarRecord.model_validate(json.loads(body))
        except (ValidationError, ValueError, RecursionError) as error:
            raise BadRecord("content") from error
        if record.key != key:
            raise BadRecord("content")
        return record

    def _mac(self, version: int, key: str, body: bytes) -> bytes:
        signed = b"%d\n%s\n" % (version, key.encode()) + body
        return hmac.digest(self._secret, signed, hashlib.sha256).hex().encode()


def _head(version: int) -> bytes:
    return b"toolgate/%d " % version
