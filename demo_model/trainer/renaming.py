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
from .tokenizer import composition

Table = npt.NDArray[np.uint16]

SHARE, LISTED, EACH = 0.4, 0.12, 0.6
"""Of the conversations: those with other values, those with other names of tools and arguments too;
and of the tokens in one of them that could be others."""
SCRAMBLED = 0.08
"""Of the conversations: those in which every word is another one. Nothing means anything there: only
that a word of the request stands in a tool's line too tells which one is asked for."""
KNOWN = 0.05
"""A token that is not in the prompt in more than this share of the answers that say it is no copy."""
LOOKED_AT = 40_000
FIXED = (
    LIST_BEGIN,
    "<|im_start|>user",
    "<|im_start|>assistant",
    " integer number boolean string any object",
)
"""What the template says itself."""
ABSENT = -1


class Renaming:
    def __init__(self, tokenizer: Tokenizer, samples: list[Sample], scrambled: float = SCRAMBLED):
        vocabulary = tokenizer.get_vocab_size()
        made = composition(tokenizer)
        self._base = made.base.astype(np.uint16)
        said, own = np.zeros(vocabulary), np.zeros(vocabulary)
        for sample in samples[:LOOKED_AT]:
            answered = np.unique(self._base[sample.ids[sample.trained]])
            said[answered] += 1
            own[np.setdiff1d(answered, self._base[sample.ids[~sample.trained]])] += 1
        for text in FIXED:
            own[self._base[tokenizer.encode(text).ids]] = np.inf
        codes = made.forms @ (1 << np.arange(made.forms.shape[1]))
        self._formed = np.full((vocabulary, 1 << made.forms.shape[1]), ABSENT, np.int64)
        self._formed[made.base, codes] = np.arange(vocabulary)
        texts = [tokenizer.decode([token], False) for token in range(vocabulary)]
        kinds = np.array([_kind(text) for text in texts])
        kinds[(own > KNOWN * said) | (made.base != np.arange(vocabulary))] = 0
        # Only words that have the same forms can be for each other.
        looks = np.column_stack((kinds, self._formed != ABSENT))
        _, alike = np.unique(looks, axis=0, return_inverse=True)
        self._kinds = np.where(kinds > 0, alike + 1, 0)
        self._alike = {
            kind: np.flatnonzero(self._kinds == kind) for kind in np.unique(self._kinds) if kind
        }
        self._same = np.arange(vocabulary, dtype=np.uint16)
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
        bases = self._base[ids]
        copied = np.intersect1d(bases[trained], bases[read & ~trained])
        chosen = copied[(self._kinds[copied] > 0) & (rng.random(len(copied)) < EACH)]
        others = [rng.choice(self._alike[kind]) for kind in self._kinds[chosen]]
        table = self._same.copy()
        self._replace(table, chosen, np.array(others, np.int64))
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

    def _replace(
        self, table: Table, words: npt.NDArray[np.integer], others: npt.NDArray[np.integer]
    ) -> None:
        """In all their forms."""
        forms = self._formed[words]
        there = forms != ABSENT
        table[forms[there]] = self._formed[others][there]

    def _scramble(
        self, sample: Sample, listed: npt.NDArray[np.bool_], rng: np.random.Generator
    ) -> Table:
        """Nothing is another where the answer has no word that the list and the request have too."""
        table, words = self._same.copy(), self._base[sample.ids]
        read = words[listed & (self._kinds[words] > 0)]
        said, answered = words[~listed & ~sample.trained], words[sample.trained]
        if np.intersect1d(np.intersect1d(read, said), answered).size:
            for alike in self._alike.values():
                self._replace(table, alike, rng.permutation(alike))
        return table


def _kind(text: str) -> int:
    """Of what has no form. What takes its place must look like it: 0 for what is no part of a word."""
    if not text.isalpha():
        return 0
    if not text.isascii():
        return 2 if len(text) == 1 and "\u3400" <= text <= "\u9fff" else 0
    return 1 if text[1:] else 3
