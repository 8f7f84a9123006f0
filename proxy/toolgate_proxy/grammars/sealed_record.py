"""What a fleet of gateways knows of one grammar, and the seal that makes it believable.

Sealed, a record is `toolgate/<version> <HMAC-SHA256, hex>`, a line feed, and JSON. The HMAC covers
version, grammar key and JSON, so a record can't be moved to another key or read as another version.
Nothing is parsed before its seal has been verified.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from toolgate_core import wire

VERSION = 2
"""2: verdicts tell residual keywords; an older record would pass for one without any."""


class BadRecord(Exception):
    """Not to be believed. `reason`, for the metrics: form, version, signature, content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class GrammarRecord(BaseModel):
    """The tool, so that it can be sent again, and what a backend said of its grammar: engine and
    why, ready or refused, what its masks leave open, cost, and the compiled grammar where loading
    it beats compiling it."""

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
    """Seals and opens records under the secret of the fleet."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def of(cls, fleet_secret: SecretStr | None, backend_key: SecretStr | None) -> Seal | None:
        """Under the fleet's secret, else under one derived from the backends' key: whoever has that
        may load grammars anyhow. None where there is neither."""
        if fleet_secret is not None:
            return cls(fleet_secret.get_secret_value().encode())
        if backend_key is not None:
            key = backend_key.get_secret_value().encode()
            return cls(hmac.digest(key, b"toolgate fleet cache", hashlib.sha256))
        return None

    def close(self, record: GrammarRecord) -> bytes:
        # json's ASCII: pydantic's own writer knows no lone surrogates.
        body = json.dumps(
            record.model_dump(exclude_none=True), separators=(",", ":"), allow_nan=False
        ).encode()
        return _head(VERSION) + self._mac(VERSION, record.key, body) + b"\n" + body

    def open(self, key: str, sealed: bytes) -> GrammarRecord:
        """Raises BadRecord."""
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
