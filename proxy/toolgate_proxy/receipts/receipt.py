"""Receipts as JSON: content, signing and verifying.

The signed bytes are the receipt without `signature`, as JSON with sorted names, without white space
and with all characters other than ASCII escaped.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .json_value import NotJson, canonical, read
from .keys import ReceiptKey

FORMAT = 2
Receipt = dict[str, Any]


class ReceiptInvalid(Exception):
    """The receipt is not one of this key, or it was changed. The message states why."""


class SignedCall(BaseModel):
    """One call, as it was sent."""

    model_config = ConfigDict(frozen=True)

    choice: int
    index: int
    """Position among the calls of the choice."""
    kind: Literal["function", "custom"]
    id: str
    name: str
    complete: bool
    """False for a call that the token limit cut."""
    text: str
    """Hash of the arguments of a function, or of the input of a custom tool: of each byte."""
    value: str | None = None
    """Hash of the value of the arguments, for the Messages API, which has no text. None if the call
    is of a custom tool, is not complete, or is nested too deeply."""


class SignedTool(BaseModel):
    """A tool that could be called."""

    model_config = ConfigDict(frozen=True)

    name: str
    hash: str = Field(alias="schema")


class SignedContent(BaseModel):
    """The part of a receipt that an audit compares. Further members are only signed."""

    model_config = ConfigDict(frozen=True)

    response: str
    tools: list[SignedTool]
    calls: list[SignedCall]


def text_hash(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def value_hash(text: str) -> str | None:
    """Return the hash of the value of JSON text, which is the same for all spellings of the value;
    None if the text can't be read."""
    try:
        return text_hash(canonical(read(text)))
    except NotJson:
        return None


def signed(content: Receipt, key: ReceiptKey) -> Receipt:
    signature = base64.b64encode(key.sign(_bytes(content))).decode()
    named = {"algorithm": key.algorithm, "key": key.name, "value": signature}
    return {**content, "signature": named}


def verify(receipt: Any, key: ReceiptKey) -> SignedContent:
    """Return the content of the receipt. Raises ReceiptInvalid."""
    signature = receipt.get("signature") if isinstance(receipt, dict) else None
    if not isinstance(signature, dict):
        raise ReceiptInvalid("it has no signature")
    if signature.get("algorithm") != key.algorithm or signature.get("key") != key.name:
        raise ReceiptInvalid(
            f"it was signed with the key {signature.get('key')} ({signature.get('algorithm')}), "
            f"not with {key.name} ({key.algorithm})"
        )
    content = {name: value for name, value in receipt.items() if name != "signature"}
    try:
        value = base64.b64decode(str(signature.get("value")), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ReceiptInvalid("its signature is not base64") from error
    if not _verifies(content, value, key):
        raise ReceiptInvalid("its signature does not match: it was changed after it was signed")
    _check_format(content.get("format"))
    try:
        return SignedContent.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ReceiptInvalid(f"its content is incomplete: {place}: {first['msg']}") from error


def _verifies(content: Receipt, signature: bytes, key: ReceiptKey) -> bool:
    try:
        return key.verifies(_bytes(content), signature)
    except (TypeError, ValueError, RecursionError):
        return False  # no receipt has such values


def _check_format(number: object) -> None:
    if number == FORMAT:
        return
    if number == 1:
        raise ReceiptInvalid(
            "it has the format 1 of an earlier release, which does not protect the order of calls, "
            "calls that were cut, and numbers beyond doubles. Audit it with the release that "
            "signed it, if that is enough"
        )
    raise ReceiptInvalid(f"it has the format {number}, and this release reads {FORMAT}")


def _bytes(content: Receipt) -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.encode()
