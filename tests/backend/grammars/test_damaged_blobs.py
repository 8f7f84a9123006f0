"""A compiled grammar of any content is unpacked as it was packed, or rejected."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from toolgate_backend.errors import BlobRejected
from toolgate_backend.grammars import blob

VALID = blob.pack("key", '{"grammar": "x"}') or ""


@settings(max_examples=repeats(100, nightly=300))
@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda b: base64.b64encode(b).decode()))
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(BlobRejected):
        blob.unpack("key", text)


@settings(max_examples=repeats(100, nightly=300))
@given(st.integers(0, len(VALID) - 1), st.sampled_from("Aa0+/=é\x00"))
def test_a_changed_character_is_rejected_or_without_effect(at: int, character: str) -> None:
    changed = VALID[:at] + character + VALID[at + 1 :]
    try:
        text = blob.unpack("key", changed)
    except BlobRejected:
        return
    assert text == '{"grammar": "x"}'


@pytest.mark.exhaustive
@pytest.mark.parametrize("megabytes", [17, 400])
def test_decompression_bombs_are_rejected(megabytes: int) -> None:
    compressor = zlib.compressobj(9)
    parts = [compressor.compress(b"key\n")]
    parts += [compressor.compress(bytes(2**20)) for _ in range(megabytes)]
    bomb = b"".join([*parts, compressor.flush()])
    assert len(bomb) < 2**20
    with pytest.raises(BlobRejected, match="too large"):
        blob.unpack("key", base64.b64encode(bomb).decode())
