"""Record of one grammar in the shared cache, and the signature (seal) that protects it.

A sealed record is `toolgate/<version> <signature>`, a line feed, and JSON. The signature covers
version, grammar key and JSON, so a record can't be moved to another key or read as another version.
JSON is parsed only after its seal has been verified.
"""

from __future__ import annotations

import hmac
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from toolgate_core import wire

from ..sealing import Sealer

HEAD = b"toolgate/4 "
"""Of version 4. Records of other versions count as missing: their grammars are compiled again."""


class BadRecord(Exception):
    """The record is rejected. `reason`, for metrics: form, version, signature or content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class GrammarRecord(BaseModel):
    """A tool, so that it can be sent to other backends, and a backend's verdict on its grammar. The
    verdict contains the engine and the reason for its choice, ready or refused, residual keywords
    and compile time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    parameters: dict[str, Any]
    verdict: wire.GrammarVerdict

    @property
    def key(self) -> str:
        return self.verdict.key


def sealed(record: GrammarRecord, sealer: Sealer) -> bytes:
    # `json` escapes lone surrogates in ASCII. pydantic's serializer fails on them.
    body = json.dumps(
        record.model_dump(exclude_none=True), separators=(",", ":"), allow_nan=False
    ).encode()
    return HEAD + _signature(record.key, body, sealer) + b"\n" + body


def opened(key: str, value: bytes, sealer: Sealer) -> GrammarRecord:
    """Return the record of a grammar key. Raise BadRecord."""
    head, newline, body = value.partition(b"\n")
    name, _, signature = head.partition(b" ")
    if not newline or not name.startswith(b"toolgate/"):
        raise BadRecord("form")
    if name + b" " != HEAD:
        raise BadRecord("version")
    if not hmac.compare_digest(signature, _signature(key, body, sealer)):
        raise BadRecord("signature")
    try:
        record = GrammarRecord.model_validate(json.loads(body))
    except (ValidationError, ValueError, RecursionError) as error:
        raise BadRecord("content") from error
    if record.key != key:
        raise BadRecord("content")
    return record


def _signature(key: str, body: bytes, sealer: Sealer) -> bytes:
    return sealer.sign(HEAD + key.encode() + b"\n" + body, purpose="grammar record")
