"""A model's vocabulary as the backend builds it, without the model's weights."""

import transformers
from tokenizers import AddedToken

from toolgate_backend.tokens.vocabulary import Vocabulary, make_vocabulary
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.mark_texts import special_tokens

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
