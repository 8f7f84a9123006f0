from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from toolgate_core import wire
from toolgate_proxy.grammars.sealed_record import BadRecord, GrammarRecord, Seal

SEAL = Seal(b"secret")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


def record(key: str = "k", **parameters: Any) -> GrammarRecord:
    verdict = wire.GrammarVerdict(key=key, status="ready", engine="xgrammar", blob="AAAA")
    return GrammarRecord(name="t", parameters=parameters, verdict=verdict)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_what_is_sealed_is_opened(parameters: dict[str, Any]) -> None:
    sealed = record(**{"key": "k"} | {"parameters": parameters})
    opened = SEAL.open("k", SEAL.close(sealed))
    assert opened == sealed
    assert list(opened.parameters["parameters"]) == list(parameters), "the order is the grammar's"


@given(st.binary(max_size=200))
def test_garbage_is_refused(value: bytes) -> None:
    with pytest.raises(BadRecord):
        SEAL.open("k", value)


@given(st.data())
def test_any_changed_byte_is_noticed(data: st.DataObject) -> None:
    sealed = bytearray(SEAL.close(record(a=1)))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadRecord):
        SEAL.open("k", bytes(sealed))


def test_a_record_holds_for_its_key_alone() -> None:
    with pytest.raises(BadRecord) as bad:
        SEAL.open("another", SEAL.close(record()))
    assert bad.value.reason == "signature"


def test_another_secret() -> None:
    with pytest.raises(BadRecord):
        Seal(b"other").open("k", SEAL.close(record()))


def test_the_secret_is_the_fleets_or_derived_from_the_backends_key() -> None:
    fleet, key = SecretStr("f"), SecretStr("b")
    assert Seal.of(None, None) is None
    derived, given_ = Seal.of(None, key), Seal.of(fleet, key)
    assert derived is not None
    assert given_ is not None
    sealed = derived.close(record())
    with pytest.raises(BadRecord):
        given_.open("k", sealed)
    with pytest.raises(BadRecord):
        Seal(b"b").open("k", sealed)  # the key itself is no secret to seal with
    again = Seal.of(None, key)
    assert again is not None
    assert again.open("k", sealed) == record()


def test_residual_keywords_are_told() -> None:
    left = (wire.ResidualKeyword(pointer="/properties/a/uniqueItems", keyword="uniqueItems"),)
    verdict = wire.GrammarVerdict(key="k", status="ready", engine="llguidance", residual=left)
    sealed = SEAL.close(GrammarRecord(name="t", parameters={}, verdict=verdict))
    assert SEAL.open("k", sealed).verdict.residual == left


def test_lone_surrogates_survive() -> None:
    odd = record(a="\ud800")
    assert SEAL.open("k", SEAL.close(odd)) == odd
