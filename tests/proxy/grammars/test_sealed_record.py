from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from toolgate_core import wire
from toolgate_proxy.grammars.sealed_record import BadRecord, GrammarRecord, Seal
from toolgate_proxy.settings import Settings

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
def test_sealed_records_can_be_opened(parameters: dict[str, Any]) -> None:
    sealed = record(**{"key": "k"} | {"parameters": parameters})
    opened = SEAL.open("k", SEAL.close(sealed))
    assert opened == sealed
    assert list(opened.parameters["parameters"]) == list(parameters), (
        "the grammar depends on the order"
    )


@given(st.binary(max_size=200))
def test_garbage_is_rejected(value: bytes) -> None:
    with pytest.raises(BadRecord):
        SEAL.open("k", value)


@given(st.data())
def test_records_with_a_changed_byte_are_rejected(data: st.DataObject) -> None:
    sealed = bytearray(SEAL.close(record(a=1)))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadRecord):
        SEAL.open("k", bytes(sealed))


def test_records_of_another_key_are_rejected() -> None:
    with pytest.raises(BadRecord) as bad:
        SEAL.open("another", SEAL.close(record()))
    assert bad.value.reason == "signature"


def test_records_sealed_with_another_secret_are_rejected() -> None:
    with pytest.raises(BadRecord):
        Seal(b"other").open("k", SEAL.close(record()))


def test_the_secret_is_the_fleet_secret_or_derived_from_the_backend_key() -> None:
    fleet_secret, backend_key = SecretStr("f"), SecretStr("b")
    assert Seal.from_settings(Settings(fleet_secret=None, backend_key=None)) is None
    derived = Seal.from_settings(Settings(fleet_secret=None, backend_key=backend_key))
    configured = Seal.from_settings(Settings(fleet_secret=fleet_secret, backend_key=backend_key))
    assert derived is not None
    assert configured is not None
    sealed = derived.close(record())
    with pytest.raises(BadRecord):
        configured.open("k", sealed)
    with pytest.raises(BadRecord):
        Seal(b"b").open("k", sealed)  # the backend key itself
    same = Seal.from_settings(Settings(fleet_secret=None, backend_key=backend_key))
    assert same is not None
    assert same.open("k", sealed) == record()


def test_sealed_records_contain_residual_keywords() -> None:
    left = (wire.ResidualKeyword(pointer="/properties/a/uniqueItems", keyword="uniqueItems"),)
    verdict = wire.GrammarVerdict(key="k", status="ready", engine="llguidance", residual=left)
    sealed = SEAL.close(GrammarRecord(name="t", parameters={}, verdict=verdict))
    assert SEAL.open("k", sealed).verdict.residual == left


def test_lone_surrogates_are_preserved() -> None:
    odd = record(a="\ud800")
    assert SEAL.open("k", SEAL.close(odd)) == odd
