"""Runs of random tokens, said again and again: what copying is first learned from.

Few tokens at first, where each is met often: there, looking for what followed it the last time is
found within minutes. Twice as many whenever that is mostly done, until it is all of them.
"""

from __future__ import annotations

import math

import numpy as np

from .batches import LENGTHS, Batch

LENGTH = LENGTHS[2]
FIRST = 64
MOSTLY, AT_LEAST = 0.35, 20
"""There are twice as many tokens once the loss is this share of a blind guess's, and after so many
steps."""
COPIED = 0.3
"""The loss at which all tokens are copied."""
SHORTEST, LONGEST = 4, 96
"""Of a run, in tokens."""


class Progress:
    """Of how many tokens runs are made, by how well those are copied."""

    def __init__(self, vocabulary: int, size: int = FIRST) -> None:
        self.vocabulary, self.size = vocabulary, size
        self._loss, self._steps = math.log(size), 0

    def note(self, loss: float) -> bool:
        """After each step. Whether all tokens are copied."""
        self._loss, self._steps = 0.9 * self._loss + 0.1 * loss, self._steps + 1
        if self.size == self.vocabulary:
            return self._loss < COPIED
        if self._steps >= AT_LEAST and self._loss < MOSTLY * math.log(self.size):
            self.size, self._steps = min(self.vocabulary, 2 * self.size), 0
        return False


def mixed(tokens: int, vocabulary: int, rng: np.random.Generator) -> Batch:
    """Runs of few tokens, where more than the last one tells what comes, and runs of all of them,
    so that those stay copied that conversations hardly ever say."""
    sizes = [
        vocabulary if rng.random() < 0.5 else int(vocabulary ** rng.uniform(0.35, 1))
        for _ in range(tokens // LENGTH)
    ]
    parts = [batch(LENGTH, size, rng.permutation(vocabulary), rng) for size in sizes]
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([on for _, on in parts])


def batch(tokens: int, size: int, order: np.ndarray, rng: np.random.Generator) -> Batch:
    """Of about `tokens` tokens; of `order`, a permutation of the vocabulary, the first `size`."""
    ids = np.empty((tokens // LENGTH, LENGTH + 1), np.int64)
    trained = np.empty(ids.shape, bool)
    for row in range(len(ids)):
        length = int(math.exp(rng.uniform(math.log(SHORTEST), math.log(LONGEST))))
        run = order[rng.integers(0, size, length)]
        ids[row] = np.resize(run, LENGTH + 1)
        trained[row] = np.arange(LENGTH + 1) > length
    return ids, trained
