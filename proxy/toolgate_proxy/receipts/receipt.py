"""Receipts as JSON: signing and verifying.

The signed bytes are the receipt without `signature`, as JSON with sorted names, without white space
and with all characters other than ASCII escaped.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from contextlib import suppress
from typing import Any

from .keys import ReceiptKey

FORMAT = 1
Receipt = dict[str, Any]


class ReceiptInvalid(Exception):
    """The receipt is not one of this key, or it was changed. The message states why."""


def arguments_hash(text: str) -> str:
    """The hash of arguments in a receipt: of their value as JSON with sorted names, because the
    Messages API has the value and not the text. Of the text itself, if it is not JSON."""
    with suppress(ValueError):  # a call that was cut, or the input of a custom tool
        text = _json(json.loads(text))
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def signed(content: Receipt, key: ReceiptKey) -> Receipt:
    signature = base64.b64encode(key.sign(_bytes(content))).decode()
    named = {"algorithm": key.algorithm, "key": key.name, "value": signature}
    return {**content, "signature": named}


def verify(receipt: Any, key: ReceiptKey) -> None:
    """Raises ReceiptInvalid."""
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
    if not key.verifies(_bytes(content), value):
        raise ReceiptInvalid("its signature does not match: it was changed after it was signed")
    if content.get("format") != FORMAT:
        raise ReceiptInvalid(f"it has the format {content.get('format')}, not {FORMAT}")


def _bytes(content: Receipt) -> bytes:
    return _json(content).encode()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
