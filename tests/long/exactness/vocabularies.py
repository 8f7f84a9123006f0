"""The vocabularies of the oracle: one of single bytes, and a model's."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from toolgate_backend.tokens.vocabulary import Vocabulary, make_vocabulary
from toolgate_core.dialects.mark_texts import special_tokens
from toolgate_core.dialects.registry import DIALECTS

DIALECT = "qwen3"
END = "<|im_end|>"


def bytes_vocabulary() -> Vocabulary:
    """256 tokens of one byte each, and the special tokens of the dialect."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    whole = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    whole.decoder = decoders.ByteLevel()
    dialect = DIALECTS[DIALECT]
    marks = dict.fromkeys([*special_tokens(dialect), END])
    whole.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in marks])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=whole, eos_token=END)
    size = (len(tokenizer) + 31) // 32 * 32
    return make_vocabulary(tokenizer, size, [tokenizer.eos_token_id], dialect)
