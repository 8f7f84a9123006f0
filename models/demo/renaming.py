"""The same conversation about other words, so that what is copied is read and not remembered.

A word list has few spellings of many words, and a third of the vocabulary, the steps between BPE's
merges, hardly comes up in them: words that are kept for the evaluation, and a user's own, are made
of those. So in some conversations tokens that the answer takes from the request, or from a result,
are other tokens, everywhere at once. In some these are the names of the tools as well: a name that
the model has often said must not come where the list has another one.
"""

from __future__ import annotations

import numpy as np
from tokenizers import Tokenizer

from .corpus import Sample

SHARE, LISTED, EACH = 0.3, 0.12, 0.6
"""Of the conversations: those with other values, those with other names of tools and arguments too;
and of the tokens in one of them that could be others."""
KNOWN = 0.05
"""A token that is not in the prompt in more than this share of the answers that say it is no copy."""
LOOKED_AT = 40_000
FIXED = (
    "<|im_start|>system",
    "<|im_start|>user",
    "<|im_start|>assistant",
    "integer",
    "number",
    "boolean",
)
"""What the template says itself."""


class Renaming:
    def __init__(self, tokenizer: Tokenizer, samples: list[Sample]) -> None:
        vocabulary = tokenizer.get_vocab_size()
        said, own = np.zeros(vocabulary), np.zeros(vocabulary)
        for sample in samples[:LOOKED_AT]:
            answered = np.unique(sample.ids[sample.trained])
            said[answered] += 1
            own[np.setdiff1d(answered, sample.ids[~sample.trained])] += 1
        for text in FIXED:
            own[tokenizer.encode(text).ids] = np.inf
        kinds = np.array([_kind(tokenizer.decode([token], False)) for token in range(vocabulary)])
        kinds[own > KNOWN * said] = 0
        self._kinds = kinds
        self._alike = [np.flatnonzero(kinds == kind) for kind in range(kinds.max() + 1)]
        self._same = np.arange(vocabulary, dtype=np.uint16)
        self._user = tokenizer.encode("<|im_start|>user").ids

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """The sample itself, or with other words."""
        roll = rng.random()
        if roll >= SHARE + LISTED:
            return sample
        ids, trained = sample.ids, sample.trained
        starts = (ids[:-1] == self._user[0]) & (ids[1:] == self._user[1])
        asked = np.arange(len(ids)) > (int(starts.argmax()) if roll < SHARE else 0)
        copied = np.intersect1d(ids[trained], ids[asked & ~trained])
        table = self._same.copy()
        for token in copied[(self._kinds[copied] > 0) & (rng.random(len(copied)) < EACH)]:
            table[token] = rng.choice(self._alike[self._kinds[token]])
        return Sample(table[ids], trained)


def _kind(text: str) -> int:
    """What takes its place must look like it: 0 for what is no part of a word."""
    if not text.isalpha():
        return 0
    if not text.isascii():
        return 4 if len(text) == 1 and "\u3400" <= text <= "\u9fff" else 0
    return 1 if text.islower() else 2 if text[1:].islower() or len(text) == 1 else 3
