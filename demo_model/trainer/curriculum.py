"""What is learned when: first copying, then finding tools, then short conversations, then all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

import numpy as np
from tokenizers import Tokenizer

from . import copying, looking
from .batches import LENGTHS, Batch, batches
from .corpus import Sample
from .renaming import SCRAMBLED, Renaming

COPY_STEPS = 2000
"""Nothing but copying is learned for so many steps at most."""
FIND_STEPS = 1500
"""Then nothing but finding tools by their words, for so many steps at most."""
SHORT_STEPS = 0.05
"""Then short conversations, for this share of the steps; then all."""
FIND_EVERY_SHORT, FIND_EVERY = 2, 8
"""A batch of finding comes after so many of short conversations, of all: conversations alone have it
forgotten within some hundred steps."""
COPY_EVERY = 24
"""And one of copying after so many."""
SCRAMBLED_SHORT = 0.25
"""Of the short conversations: finding the tool by a word is learned first."""


class Stage(IntEnum):
    COPYING = 0
    FINDING = 1
    SHORT = 2
    ALL = 3


class Curriculum:
    """Of one of `world` processes, which have `tokens` tokens a step together."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        samples: Callable[[bool], list[Sample]],
        *,
        seed: int,
        steps: int,
        tokens: int,
        rank: int = 0,
        world: int = 1,
        begun: bool = False,
        lengths: Sequence[int] = LENGTHS,
    ) -> None:
        """`samples`: the short conversations, or all; `steps`: of the whole training; `begun`: what
        all conversations need is learned already; `lengths`: of the batches, in tokens."""
        self._tokenizer, self._samples, self._seed = tokenizer, samples, seed
        self._tokens, self._rank, self._world = tokens // world, rank, world
        self._lengths = lengths
        self._short_steps = 0 if begun else SHORT_STEPS * steps
        self._vocabulary = tokenizer.get_vocab_size()
        self._copied, self._found = (0, 0) if begun else (COPY_STEPS, COPY_STEPS + FIND_STEPS)
        self._copying = copying.Progress(self._vocabulary)
        self._lists = looking.Lists(tokenizer, np.random.default_rng(seed))
        self._finding = looking.Progress(len(self._lists.words))

    def state(self) -> dict[str, int]:
        """What `load` takes to go on."""
        return {
            "copied": self._copied,
            "found": self._found,
            "alphabet": self._copying.size,
            "form": self._finding.form,
        }

    def load(self, state: dict[str, int]) -> None:
        self._copied, self._found = state["copied"], state["found"]
        self._copying = copying.Progress(self._vocabulary, state["alphabet"])
        self._finding = looking.Progress(len(self._lists.words), state["form"])

    def stage(self, step: int) -> Stage:
        short = self._found + self._short_steps
        return Stage((step >= self._copied) + (step >= self._found) + (step >= short))

    def note(self, step: int, loss: float) -> None:
        """After the step of this number, counted from 0; the loss is of all processes."""
        stage = self.stage(step)
        if stage == Stage.COPYING and self._copying.note(loss):
            self._copied, self._found = step + 1, step + 1 + FIND_STEPS
        elif stage == Stage.FINDING and self._finding.note(loss):
            self._found = step + 1

    def batches(self, stage: Stage, step: int) -> Iterator[Batch]:
        """This process's share of them, from this step on, without an end."""
        own = np.random.default_rng((self._seed, stage, step, self._rank))
        if stage == Stage.COPYING:
            order = np.random.default_rng(self._seed).permutation(self._vocabulary)
            while True:
                yield copying.batch(self._tokens, self._copying.size, order, own)
        elif stage == Stage.FINDING:
            while True:
                yield self._lists.batch(self._tokens, self._finding.form, self._finding.size, own)
        else:
            yield from self._conversations(stage, step, own)

    def _conversations(self, stage: Stage, step: int, own: np.random.Generator) -> Iterator[Batch]:
        rng = np.random.default_rng((self._seed, stage, step))  # the same in all processes
        short = stage == Stage.SHORT
        samples = self._samples(short)
        renaming = Renaming(self._tokenizer, samples, SCRAMBLED_SHORT if short else SCRAMBLED)
        find_every = FIND_EVERY_SHORT if short else FIND_EVERY
        while True:
            found = batches(
                samples,
                self._tokens,
                0,
                rng,
                self._rank,
                self._world,
                change=lambda s: renaming(s, own),
                lengths=self._lengths,
            )
            for number, batch in enumerate(found, 1):
                yield batch
                if number % find_every == 0:
                    yield self._lists.mixed(self._tokens, own)
                if number % COPY_EVERY == 0:
                    yield copying.mixed(self._tokens, self._vocabulary, own)
