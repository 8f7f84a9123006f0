"""Blobs: the same masks as a fresh compile, and nothing but what they say they are."""

import base64
import random
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import tools
from tests.support.effort import repeats
from tests.support.schemas import hostile_schemas
from toolgate_backend.errors import BlobRejected
from toolgate_backend.grammars import blob
from toolgate_backend.grammars.examination import compiler_of, setup_of
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import words_per_row
from toolgate_core.schema.canonical import canonical_json, canonical_parameters
from toolgate_core.tools import parse_tools

# --- blob ---
KEY = "k:qwen3:t:f"
VALID = blob.pack("key", '{"grammar": "x"}') or ""
SCHEMAS = [
    *(tool["function"]["parameters"] for tool in (tools.WEATHER, tools.RETURN_JSON, tools.RANGE)),
    hostile_schemas.of(a={"type": "string", "enum": [f"value {i}" for i in range(300)]}),
    hostile_schemas.of(**{f"p{i}": {"type": "integer", "minimum": -5} for i in range(12)}),
]


def parameters(schema):
    return canonical_json(canonical_parameters(schema))


def compiled(compiler, schema):
    grammar = compiler.compile(KEY, "f", parameters(schema)).grammar
    assert grammar is not None
    return grammar


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_loaded_grammar_has_the_masks_of_a_fresh_compile(compiler, vocabulary, schema):
    """The masks of a blob from another compiler are compared along random walks."""
    elsewhere = compiler_of(setup_of(vocabulary), cache_bytes=2**26)
    packed = elsewhere.pack(KEY, compiled(elsewhere, schema))
    assert packed is not None
    loaded = compiler.load(KEY, packed, parameters(schema)).grammar
    assert loaded is not None
    for seed in range(5):
        rng = random.Random(seed)
        pair = loaded.matcher(), compiled(compiler, schema).matcher()
        rows = np.zeros((2, words_per_row(vocabulary.size)), dtype=np.int32)
        for _ in range(200):
            for matcher, row in zip(pair, rows, strict=True):
                matcher.fill(row)
            assert np.array_equal(*rows)
            token = int(rng.choice(masks.unpack(rows[0])))
            assert [matcher.accept(token) for matcher in pair] == [True, True]
            assert pair[0].finished == pair[1].finished
            if pair[0].finished:
                break


def _bomb():
    return base64.b64encode(
        zlib.compress(f"{KEY}\n".encode() + b" " * (blob.MAX_BYTES + 1))
    ).decode()


@pytest.mark.parametrize(
    "packed",
    [
        "",
        "not base64 ü",
        base64.b64encode(b"not zlib").decode(),
        base64.b64encode(zlib.compress(b"\xff\xfe")).decode(),
        base64.b64encode(zlib.compress(f"{KEY}\nnot json".encode())).decode(),
        base64.b64encode(zlib.compress(f"{KEY}\n{{}}".encode())).decode(),
        base64.b64encode(zlib.compress(f"{KEY}\n".encode() + b"[" * 200_000)).decode(),
        base64.b64encode(zlib.compress(f"{KEY}\n".encode()) + b"more").decode(),
        _bomb(),
    ],
    ids=["empty", "text", "zlib", "utf8", "json", "fields", "nesting", "more", "bomb"],
)
def test_an_invalid_blob_is_rejected(compiler, packed):
    with pytest.raises(BlobRejected):
        compiler.load(KEY, packed, parameters(SCHEMAS[0]))


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.99])
def test_a_truncated_blob_is_rejected(compiler, cut):
    packed = compiler.pack(KEY, compiled(compiler, SCHEMAS[0]))
    assert packed is not None
    whole = base64.b64decode(packed)
    part = base64.b64encode(whole[: int(len(whole) * cut)]).decode()
    with pytest.raises(BlobRejected):
        compiler.load(KEY, part, parameters(SCHEMAS[0]))


def test_a_blob_of_another_key_engine_or_vocabulary_is_rejected(compiler):
    packed = compiler.pack(KEY, compiled(compiler, SCHEMAS[0]))
    assert packed is not None
    with pytest.raises(BlobRejected, match="another grammar key"):
        compiler.load("other", packed, parameters(SCHEMAS[0]))
    with pytest.raises(BlobRejected, match="xgrammar does not compile"):
        compiler.load(KEY, packed, parameters(tools.TAGS["function"]["parameters"]))
    text = blob.unpack(KEY, packed).replace('"vocab_size":', '"vocab_size":1', 1)
    assert text != blob.unpack(KEY, packed)
    other = blob.pack(KEY, text)
    assert other is not None
    with pytest.raises(BlobRejected):
        compiler.load(KEY, other, parameters(SCHEMAS[0]))


def test_llguidance_grammars_have_no_blob(compiler):
    [tool] = parse_tools([tools.TAGS])
    assert compiler.pack(KEY, compiled(compiler, tool.parameters)) is None


@settings(max_examples=repeats(50, nightly=300))
@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda b: base64.b64encode(b).decode()))
def test_other_texts_are_rejected(text):
    with pytest.raises(BlobRejected):
        blob.unpack("key", text)


@settings(max_examples=repeats(50, nightly=300))
@given(st.integers(0, len(VALID) - 1), st.sampled_from("Aa0+/=é\x00"))
def test_a_changed_character_is_rejected_or_without_effect(at, character):
    changed = VALID[:at] + character + VALID[at + 1 :]
    try:
        text = blob.unpack("key", changed)
    except BlobRejected:
        return
    assert text == '{"grammar": "x"}'


@pytest.mark.exhaustive
@pytest.mark.parametrize("megabytes", [17, 80])
def test_decompression_bombs_are_rejected(megabytes):
    compressor = zlib.compressobj(9)
    parts = [compressor.compress(b"key\n")]
    parts += [compressor.compress(bytes(2**20)) for _ in range(megabytes)]
    bomb = b"".join([*parts, compressor.flush()])
    assert len(bomb) < 2**20
    with pytest.raises(BlobRejected, match="too large"):
        blob.unpack("key", base64.b64encode(bomb).decode())
