"""Streams of which parts were compressed before are read as others are."""

from __future__ import annotations

import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from toolgate_proxy.response_store.deflated import deflated
from toolgate_proxy.shared_json import Part, SharedText, plain

# Texts that refer far back to what they repeat.
words = st.sampled_from([b"", b"a", b"tool", b'{"type":"function"}' * 50, bytes(range(256)) * 200])
texts = st.lists(words, max_size=4).map(b"".join)


@settings(max_examples=repeats(200, nightly=5000), deadline=None)
@given(st.lists(texts, min_size=1, max_size=3), st.lists(st.integers(0, 5), max_size=8))
def test_the_text_of_all_parts_is_read(shared: list[bytes], order: list[int]) -> None:
    known = [SharedText(text) for text in shared]
    parts: list[Part] = [
        shared[at % len(shared)] if at % 2 else known[at % len(known)] for at in order
    ]
    text = b"".join(map(plain, parts))
    for _ in range(2):
        assert zlib.decompress(deflated(parts)) == text


def test_a_shared_text_is_compressed_once() -> None:
    text = SharedText(bytes(range(256)) * 1_000)
    first, second = deflated([b"{", text, b"}"]), deflated([b"[ ", text, b"]"])
    (blocks,) = text._made.values()
    assert blocks in first
    assert blocks in second
    assert len(first) < len(text.text) / 10
