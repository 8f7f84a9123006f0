"""A tokenizer that needs no training: bytes, and what a test adds to them."""

from __future__ import annotations

from itertools import product

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

WORDS = sorted("Q" + "".join(letters) for letters in product("jkvwxz", repeat=3))
"""That stand in no text."""


def byte_tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    return made


def word_tokenizer() -> Tokenizer:
    """Bytes, and `WORDS`."""
    made = byte_tokenizer()
    made.add_tokens(WORDS)
    return made
