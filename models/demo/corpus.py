"""Conversations as token ids, made ahead of the training by all processors."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from .dialogue import Text, User, render
from .handwritten import messages
from .samples import Source

CHUNK = 500
LONGEST = 1024
"""Tokens; the few longer conversations are left out."""


@dataclass(frozen=True)
class Sample:
    ids: npt.NDArray[np.uint16]
    trained: npt.NDArray[np.bool_]
    """Of each token, whether it is to be predicted."""


def texts(seed: int, number: int, *, short: bool = False) -> list[Text]:
    """Conversations in which nobody says what is written by hand for the evaluation."""
    source = Source(seed, short=short)
    kept: list[Text] = []
    while len(kept) < number:
        dialogue = source.draw()
        if not any(isinstance(turn, User) and turn.text in messages() for turn in dialogue.turns):
            kept.append(render(dialogue))
    return kept


def encode(tokenizer: Tokenizer, made: list[Text]) -> list[Sample]:
    samples = []
    for text, encoding in zip(made, tokenizer.encode_batch_fast([t.text for t in made]), strict=True):
        ids = np.array(encoding.ids, np.uint16)
        if len(ids) <= LONGEST:
            starts = np.array([start for start, _ in encoding.offsets])
            trained = np.zeros(len(ids), bool)
            for begin, end in text.trained:
                trained |= (starts >= begin) & (starts < end)
            samples.append(Sample(ids, trained))
    return samples


_tokenizer: Tokenizer | None = None


def _start(path: str) -> None:
    global _tokenizer
    _tokenizer = Tokenizer.from_file(path)


def _made(task: tuple[int, bool]) -> list[Sample]:
    assert _tokenizer is not None
    seed, short = task
    return encode(_tokenizer, texts(seed, CHUNK, short=short))


def make(tokenizer_file: str, seed: int, number: int, *, short: bool = False) -> list[Sample]:
    """`number` samples, the same for the same seed on any number of processors."""
    tasks = [(seed * 1_000_003 + index * 2 + short, short) for index in range(-(-number // CHUNK))]
    with multiprocessing.get_context("spawn").Pool(initializer=_start, initargs=(tokenizer_file,)) as pool:
        return [sample for chunk in pool.imap(_made, tasks) for sample in chunk][:number]


def copying(tokenizer_size: int, seed: int, number: int, first: int = 9) -> list[Sample]:
    """Runs of random tokens said twice: what copying is first learned from."""
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(number):
        length = int(rng.integers(12, 60))
        run = rng.integers(0, tokenizer_size - first, length)
        ids = np.concatenate([run, run]).astype(np.uint16)
        trained = np.arange(2 * length) > length
        samples.append(Sample(ids, trained))
    return samples


Batch = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]


def batches(samples: list[Sample], tokens: int, pad: int, rng: np.random.Generator) -> Iterator[Batch]:
    """Each sample once, with others of its length; at most `tokens` a batch, the padding included."""
    order = rng.permutation(len(samples))
    window = 4096
    for begin in range(0, len(order), window):
        part = sorted(order[begin : begin + window], key=lambda i: len(samples[i].ids))
        groups: list[list[int]] = [[]]
        for index in part:
            longest = padded(len(samples[index].ids))
            if groups[-1] and longest * (len(groups[-1]) + 1) > tokens:
                groups.append([])
            groups[-1].append(index)
        for which in rng.permutation(len(groups)):
            yield _batch([samples[index] for index in groups[which]], pad)


def padded(length: int) -> int:
    return -(-length // 32) * 32


def _batch(samples: list[Sample], pad: int) -> Batch:
    width = padded(max(len(sample.ids) for sample in samples))
    ids = np.full((len(samples), width), pad, np.int64)
    trained = np.zeros((len(samples), width), bool)
    for row, sample in enumerate(samples):
        ids[row, : len(sample.ids)] = sample.ids
        trained[row, : len(sample.ids)] = sample.trained
    return ids, trained
