"""Conversations as token ids, made ahead of the training by all processors."""

from __future__ import annotations

import hashlib
import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from .dialogue import Text, User, render
from .handwritten import messages
from .samples import Source

CHUNK = 500
UNRELATED = (
    "train", "curriculum", "batches", "copying", "looking", "renaming", "muon", "network", "growing", "export", "probe", "evaluate", "asking"
)  # fmt: skip
"""Modules that conversations do not depend on."""
LONGEST = 1025
"""Tokens; the few conversations that are longer are left out."""


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
    for text, encoding in zip(made, tokenizer.encode_batch([t.text for t in made]), strict=True):
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
    with multiprocessing.get_context("spawn").Pool(
        initializer=_start, initargs=(tokenizer_file,)
    ) as pool:
        return [sample for chunk in pool.imap(_made, tasks) for sample in chunk][:number]


def kept(file: Path, key: str, make_all: Callable[[], list[Sample]]) -> list[Sample]:
    """What `file` holds of this key, or what is made now and then kept there."""
    if file.exists():
        with np.load(file) as held:
            if str(held["key"]) == key:
                ends = np.cumsum(held["lengths"])[:-1]
                pairs = zip(
                    np.split(held["ids"], ends), np.split(held["trained"], ends), strict=True
                )
                return [Sample(ids, trained) for ids, trained in pairs]
    samples = make_all()
    np.savez(
        file,
        key=key,
        lengths=np.array([len(sample.ids) for sample in samples]),
        ids=np.concatenate([sample.ids for sample in samples]),
        trained=np.concatenate([sample.trained for sample in samples]),
    )
    return samples


def fingerprint() -> str:
    """Of all that conversations depend on: the modules and the word lists."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*here.glob("*.py"), *(here / "data").glob("*.txt")]):
        if path.stem not in UNRELATED:
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
