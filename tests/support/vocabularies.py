"""A model's vocabulary without its weights, and a bias on texts as the `logit_bias` of a model."""

import json
from collections.abc import Mapping
from pathlib import Path

import transformers
from tokenizers import AddedToken

from toolgate_backend.tokens.vocabulary import Vocabulary, make_vocabulary
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.marks import special_tokens

JSON_CLOSERS = frozenset((b'"', b"}", b'"}', b"]", b'"]', b'"}}', b"}}\n", b"}\n"))
"""Tokens that end a string, an object or a call."""


def vocabulary_of(directory: str, dialect: Dialect | None = None) -> Vocabulary:
    """With `dialect`, its special tokens are added, and its form of calls is used."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    size = transformers.AutoConfig.from_pretrained(directory).vocab_size
    if dialect is not None:
        marks = special_tokens(dialect)
        tokenizer.add_tokens([AddedToken(text, normalized=False) for text in marks])
        size = (max(size, len(tokenizer)) + 31) // 32 * 32
    ends = transformers.GenerationConfig.from_pretrained(directory).eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    return make_vocabulary(tokenizer, size, ends, dialect)


def by_token(biases: Mapping[str, float], model: Path) -> dict[str, float]:
    """`logit_bias` by token ID. Texts that are no token of the model are left out."""
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = dict(tokenizer["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    return {str(ids[text]): bias for text, bias in biases.items() if text in ids}
