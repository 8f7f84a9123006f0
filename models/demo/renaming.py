"""The same conversation about other words, so that what is copied is read and not remembered.

A word list has few spellings of many words, and a third of the vocabulary, the steps between BPE's
merges, hardly comes up in them: words that are kept for the evaluation, and a user's own, are made
of those. So in some conversations tokens that the answer takes from the request, or from a result,
are other tokens, everywhere at once. In some these are the names of the tools as well: a name that
the model has often said must not come where the list has another one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from .corpus import Sample
from .dialogue import LIST_BEGIN

Table = npt.NDArray[np.uint16]

SHARE, LISTED, EACH = 0.25, 0.1, 0.6
"""Of the conversations: those with other values, those with other names of tools and arguments too;
and of the tokens in one of them that could be others."""
SCRAMBLED = 0.08
"""Of the conversations: those in which every word is another one. Nothing means anything there: only
that a word of the request stands in a tool's line too tells which one is asked for."""
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
    def __init__(self, tokenizer: Tokenizer, samples: list[Sample], scrambled: float = SCRAMBLED):
        vocabulary = tokenizer.get_vocab_size()
        said, own = np.zeros(vocabulary), np.zeros(vocabulary)
        for sample in samples[:LOOKED_AT]:
            answered = np.unique(sample.ids[sample.trained])
            said[answered] += 1
            own[np.setdiff1d(answered, sample.ids[~sample.trained])] += 1
        for text in FIXED:
            own[tokenizer.encode(text).ids] = np.inf
        texts = [tokenizer.decode([token], False) for token in range(vocabulary)]
        kinds = np.array([_kind(text) for text in texts])
        kinds[own > KNOWN * said] = 0
        self._kinds = kinds
        self._alike = [np.flatnonzero(kinds == kind) for kind in range(kinds.max() + 1)]
        self._same = np.arange(vocabulary, dtype=np.uint16)
        self._twin = _twins(texts, kinds)
        self._paired = np.flatnonzero((kinds == 1) & (self._twin != self._same))
        both = np.concatenate((self._paired, self._twin[self._paired]))
        self._alone = [np.setdiff1d(alike, both) for alike in self._alike[1:]]
        self._list = np.array(tokenizer.encode(LIST_BEGIN).ids)
        self._end = tokenizer.token_to_id("<|im_end|>")
        self._scrambled = scrambled

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """The sample itself, or with other words."""
        roll = rng.random()
        if roll >= SHARE + LISTED + self._scrambled:
            return sample
        ids, trained = sample.ids, sample.trained
        listed = self._listed(sample)
        if roll >= SHARE + LISTED:
            return Sample(self._scramble(sample, listed, rng)[ids], trained)
        read = ~listed if roll < SHARE else np.ones(len(ids), bool)
        copied = np.intersect1d(ids[trained], ids[read & ~trained])
        table = self._same.copy()
        for token in copied[(self._kinds[copied] > 0) & (rng.random(len(copied)) < EACH)]:
            self._replace(table, int(token), int(rng.choice(self._alike[self._kinds[token]])))
        return Sample(table[ids], trained)

    def _listed(self, sample: Sample) -> npt.NDArray[np.bool_]:
        """Of each token, whether it is in the list of tools."""
        ids, listed = sample.ids, np.zeros(len(sample.ids), bool)
        windows = np.lib.stride_tricks.sliding_window_view(ids, len(self._list))
        begins = np.flatnonzero((windows == self._list).all(1))
        if begins.size:
            begin = int(begins[-1])
            listed[begin + 1 : begin + int((ids[begin:] == self._end).argmax())] = True
        return listed

    def _replace(self, table: Table, token: int, other: int) -> None:
        """A word and its capitalized form are replaced by another word and its form."""
        table[token] = other
        if self._twin[token] != token and self._twin[other] != other:
            table[self._twin[token]] = self._twin[other]

    def _scramble(
        self, sample: Sample, listed: npt.NDArray[np.bool_], rng: np.random.Generator
    ) -> Table:
        """Nothing is another where the answer has no word that the list and the request have too."""
        ids, table = sample.ids, self._same.copy()
        words = np.minimum(ids, self._twin[ids])
        read = words[listed & (self._kinds[ids] > 0)]
        said, answered = words[~listed & ~sample.trained], words[sample.trained]
        if np.intersect1d(np.intersect1d(read, said), answered).size:
            for alone in self._alone:
                table[alone] = rng.permutation(alone)
            table[self._paired] = rng.permutation(self._paired)
            table[self._twin[self._paired]] = self._twin[table[self._paired]]
        return table


def _twins(texts: list[str], kinds: npt.NDArray[np.int64]) -> Table:
    """Of a word's token that of its capitalized form, and the other way; of others themselves."""
    twins = np.arange(len(texts), dtype=np.uint16)
    found = {text: token for token, text in enumerate(texts) if kinds[token] in (1, 2)}
    for text, token in found.items():
        other = found.get(text.capitalize())
        if len(text) > 1 and text.islower() and other is not None:
            twins[token], twins[other] = other, token
    return twins


def _kind(text: str) -> int:
    """What takes its place must look like it: 0 for what is no part of a word."""
    if not text.isalpha():
        return 0
    if not text.isascii():
        return 4 if len(text) == 1 and "\u3400" <= text <= "\u9fff" else 0
    return 1 if text.islower() else 2 if text[1:].islower() or len(text) == 1 else 3
