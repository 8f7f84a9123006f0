"""Runs of random tokens, said again and again: what copying is first learned from.

Few tokens at first, and twice as many every `DOUBLING` steps until it is all of them: where each is
met often, looking for what followed it the last time is found within minutes.
"""

from __future__ import annotations

import math

import numpy as np

from .batches import LENGTHS, Batch

FIRST, DOUBLING = 64, 80
SHORTEST, LONGEST = 4, 96
"""Of a run, in tokens."""


def alphabet(step: int, vocabulary: int) -> int:
    """Of how many tokens runs are made at this step."""
    return min(vocabulary, int(FIRST * 2 ** (step / DOUBLING)))


def batch(tokens: int, size: int, order: np.ndarray, rng: np.random.Generator) -> Batch:
    """Of about `tokens` tokens; of `order`, a permutation of the vocabulary, the first `size`."""
    width = LENGTHS[0] + 1
    ids = np.empty((tokens // LENGTHS[0], width), np.int64)
    trained = np.empty(ids.shape, bool)
    for row in range(len(ids)):
        length = int(math.exp(rng.uniform(math.log(SHORTEST), math.log(LONGEST))))
        run = order[rng.integers(0, size, length)]
        ids[row] = np.resize(run, width)
        trained[row] = np.arange(width) > length
    return ids, trained
