"""Conversations of about one length, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from .corpus import LONGEST, Sample

LENGTHS = (80, 128, 184, 256, 344, 440, 544, 656, LONGEST - 1)
"""Of batches, in tokens: few, since the network is compiled for each."""
FINE_LENGTHS = (
    *range(48, 400, 16),
    *range(400, 656, 32),
    *range(656, LONGEST - 1, 64),
    LONGEST - 1,
)
"""Where nothing is compiled: with `LENGTHS` a seventh of the tokens is padding."""

Batch = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]


def batches(
    samples: list[Sample],
    tokens: int,
    pad: int,
    rng: np.random.Generator,
    rank: int,
    world: int,
    change: Callable[[Sample], Sample] = lambda sample: sample,
    lengths: Sequence[int] = LENGTHS,
) -> Iterator[Batch]:
    """Of each batch the share of one of `world` processes, about `tokens` tokens; all of them have
    the same length at a time, so that none waits for another.

    Batches are full: what does not fill one is left out this time. `change` makes another sample of
    one, as long; `lengths`: of the batches, rising to the longest sample's."""
    waiting: dict[int, list[Sample]] = {length: [] for length in lengths}
    for index in rng.permutation(len(samples)):
        sample = samples[index]
        # The last token is only predicted, so one more than the network's length fits.
        length = next(each for each in lengths if len(sample.ids) <= each + 1)
        waiting[length].append(sample)
        if len(waiting[length]) == tokens // length * world:
            mine = [change(each) for each in waiting[length][rank::world]]
            yield _batch(mine, length + 1, pad)
            waiting[length] = []


def _batch(samples: list[Sample], width: int, pad: int) -> Batch:
    ids = np.full((len(samples), width), pad, np.int64)
    trained = np.zeros((len(samples), width), bool)
    for row, sample in enumerate(samples):
        ids[row, : len(sample.ids)] = sample.ids
        trained[row, : len(sample.ids)] = sample.trained
    return ids, trained
