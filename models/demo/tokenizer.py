"""The tokenizer: byte-level BPE in which a value is spelt alike in prose and in JSON.

Spaces, digits, marks and CJK characters are tokens of their own; the runs of marks between JSON's
values are cut so that they never take in a value's first or last character.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .words import characters, everyday

VOCABULARY = 4096
SPELT_TIMES = 100
"""How often everyday words and characters are read, beside the conversations."""
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
PIECES = (
    r"\n+"
    r'|[{}\[\]"]+(?:[:,] [{}\[\]"]*)?|[:,] [{}\[\]"]+'  # JSON between values: `": "`, `"], "`, `, "`
    r"|[\u3400-\u9fff\u3000-\u303f\uff00-\uffef]|\p{N}"
    r"|\p{Lu}?[\p{Ll}\p{M}]+|\p{Lu}+(?![\p{Ll}\p{M}])|[\p{L}\p{M}]"
    r"|\s|."
)


def spelt() -> Iterator[str]:
    """Everyday words and Chinese characters, so often that most become tokens, many words
    capitalized too."""
    for character in characters():
        yield from (character,) * SPELT_TIMES
    for section in everyday().values():
        for word in (*section.trained, *section.held):
            yield from (f"{word} {word.capitalize()}",) * SPELT_TIMES


def train(texts: Iterable[str]) -> Tokenizer:
    """Exits with a message when the texts do not fill the vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL) - len(MARKS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in MARKS])
    if tokenizer.get_vocab_size() != VOCABULARY:
        sys.exit(f"the texts are too few: {tokenizer.get_vocab_size()} tokens of {VOCABULARY}")
    return tokenizer
