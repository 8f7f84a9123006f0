"""Receipts: keys, signatures, and what they are worth after a change."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic import ValidationError

from toolgate_proxy.receipts.json_value import Number
from toolgate_proxy.receipts.keys import InvalidReceiptKey, new_key, read_key
from toolgate_proxy.receipts.receipt import FORMAT, ReceiptInvalid, signed, value_hash, verify
from toolgate_proxy.settings import Settings

CONTENT: dict[str, Any] = {
    "format": FORMAT,
    "response": "resp_1",
    "tools": [{"name": "é", "schema": "sha256:0"}],
    "calls": [],
}
ALGORITHMS = ("hmac", "ed25519")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_receipt_is_verified_with_the_verifying_key(algorithm: str) -> None:
    private, public = map(read_key, new_key(algorithm))
    verify(signed(CONTENT, private), public)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_change_breaks_the_signature(algorithm: str) -> None:
    private, public = map(read_key, new_key(algorithm))
    receipt = signed(CONTENT, private)
    for change in ({"response": "resp_2"}, {"tools": []}, {"more": 1}, {"more": [{}] * 3}):
        with pytest.raises(ReceiptInvalid, match="was changed"):
            verify(receipt | change, public)


def test_a_receipt_of_another_key_is_not_valid() -> None:
    first, second = (read_key(new_key("hmac")[0]) for _ in range(2))
    with pytest.raises(ReceiptInvalid, match="was signed with the key"):
        verify(signed(CONTENT, first), second)


@pytest.mark.parametrize("receipt", [None, [], {}, {"signature": "x"}, {**CONTENT, "signature": 1}])
def test_what_is_no_receipt_is_not_valid(receipt: Any) -> None:
    with pytest.raises(ReceiptInvalid, match="no signature"):
        verify(receipt, read_key(new_key("hmac")[0]))


@pytest.mark.parametrize(
    ("number", "said"), [(1, "format 1 of an earlier release"), (3, "format 3"), (None, "None")]
)
def test_a_receipt_of_another_format_is_not_valid(number: int | None, said: str) -> None:
    key = read_key(new_key("hmac")[0])
    with pytest.raises(ReceiptInvalid, match=said):
        verify(signed({**CONTENT, "format": number}, key), key)


@pytest.mark.parametrize("name", ["response", "tools", "calls"])
def test_a_receipt_without_a_member_is_not_valid(name: str) -> None:
    key = read_key(new_key("hmac")[0])
    content = {known: value for known, value in CONTENT.items() if known != name}
    with pytest.raises(ReceiptInvalid, match=f"incomplete: {name}"):
        verify(signed(content, key), key)


def test_values_that_no_receipt_has_break_the_signature() -> None:
    key = read_key(new_key("hmac")[0])
    receipt = signed(CONTENT, key)
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    for wrong in (deep, object(), Number("1e400")):
        with pytest.raises(ReceiptInvalid, match="was changed"):
            verify({**receipt, "more": wrong}, key)


@pytest.mark.parametrize(
    "text",
    ["", "secret", "rsa:AAAA", "hmac:§§§", "hmac:AAAA", f"ed25519:{'A' * 88}"],
)
def test_invalid_keys_are_refused_without_being_shown(text: str) -> None:
    with pytest.raises(InvalidReceiptKey) as error:
        read_key(text)
    secret = text.partition(":")[2]
    assert not secret or secret not in str(error.value)


def test_the_name_of_a_key_does_not_contain_it() -> None:
    secret = new_key("hmac")[0]
    assert read_key(secret).name.encode() not in base64.b64decode(secret.partition(":")[2])


def test_the_setting_has_a_key_that_signs() -> None:
    private, public = new_key("ed25519")
    assert Settings(receipt_key=private).receipt_key is not None
    for wrong in (public, "hmac:x"):
        with pytest.raises(ValidationError, match="TOOLGATE_RECEIPT_KEY") as error:
            Settings(receipt_key=wrong)
        assert wrong not in str(error.value)


def test_the_hash_of_a_value_is_that_of_all_its_spellings() -> None:
    assert value_hash('{"b": 1, "a": "é"}') == value_hash('{"a":"\\u00e9","b":1}')
    assert value_hash('{"a": ') is None
    assert value_hash("[" * 100_000 + "]" * 100_000) is None
