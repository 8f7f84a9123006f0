from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from toolgate_core import wire
from toolgate_proxy.grammars.redis_cache import RedisCache
from toolgate_proxy.grammars.sealed_record import BadRecord, GrammarRecord, opened, sealed
from toolgate_proxy.sealing import Sealer
from toolgate_proxy.settings import Settings

SEALER = Sealer(b"secret")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


def record(key: str = "k", **parameters: Any) -> GrammarRecord:
    left = (wire.ResidualKeyword(pointer="/properties/a/uniqueItems", keyword="uniqueItems"),)
    verdict = wire.GrammarVerdict(key=key, status="ready", engine="llguidance", residual=left)
    return GrammarRecord(name="t", parameters=parameters, verdict=verdict)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_sealed_records_can_be_opened(parameters):
    made = record(**{"key": "k"} | {"parameters": parameters})
    read = opened("k", sealed(made, SEALER), SEALER)
    assert read == made
    assert list(read.parameters["parameters"]) == list(parameters), (
        "the grammar depends on the order"
    )


@given(st.binary(max_size=200))
def test_garbage_is_rejected(value):
    with pytest.raises(BadRecord):
        opened("k", value, SEALER)


@given(st.data())
def test_records_with_a_changed_byte_are_rejected(data):
    changed = bytearray(sealed(record(a=1), SEALER))
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadRecord):
        opened("k", bytes(changed), SEALER)


def test_the_secret_is_the_fleet_secret_or_derived_from_the_backend_key():
    fleet_secret, backend_key = SecretStr("f"), SecretStr("b")
    derived = Settings(fleet_secret=None, backend_key=backend_key)
    configured = Settings(fleet_secret=fleet_secret, backend_key=backend_key)
    value = sealed(record(), Sealer.from_settings(derived))
    with pytest.raises(BadRecord):
        opened("k", value, Sealer.from_settings(configured))
    with pytest.raises(BadRecord):
        opened("k", value, Sealer(b"b"))  # the backend key itself
    assert opened("k", value, Sealer.from_settings(derived)) == record()


def test_without_a_secret_there_is_no_shared_cache():
    settings = Settings(redis_url=SecretStr("redis://127.0.0.1:1"), fleet_secret=None)
    assert RedisCache.from_settings(settings.model_copy(update={"backend_key": None})) is None


def test_lone_surrogates_are_preserved():
    odd = record(a="\ud800")
    assert opened("k", sealed(odd, SEALER), SEALER) == odd
