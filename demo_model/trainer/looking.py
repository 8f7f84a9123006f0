"""Lists of tools made of random words, and words that stand in one line of them: what finding a
tool is learned from.

Asked for a whole call at once, a network takes thousands of steps to find that a word of the request
leads to a line, and a line to its name. Taken apart it takes some hundred: first a word is followed
by the name of its line, at once and many times a list; then it stands among words of no line; then
the whole prompt and the beginning of the call stand in between, and at last the small words and the
arguments that conversations have. So far of few words, as in copying; then of all of them, in all
forms side by side: the first one brings new words in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from .batches import LENGTHS, Batch
from .dialogue import LIST_BEGIN, NO_THOUGHT
from .tokenizer import composition

LENGTH = LENGTHS[3]
FORMS = ("word", "words", "call", "sentence", "any of them")
CALLS = ("call", "sentence")
LAST = len(FORMS) - 1
SHARES = (0.1, 0.2, 0.3, 0.4)
"""Of the rows, in the last form, those in each of the others: one in the first has eight times the
answers of a call."""
FIRST = 64
FOUND, ALL_FOUND = 0.7, 1.0
"""The loss at which the next form comes, at which conversations come."""
AT_LEAST = 20
"""Steps, of a form."""
LINES = (2, 8)
"""Of a list, at least and at most."""
BESIDE = 5
"""Words of a request that stand in no line, at most."""
DRAWN = 128
"""Words for a list, and for what stands beside its words in requests."""
LIKE_ANOTHER = 0.35
"""Of the names: those that begin like another one of their list."""
SMALL = ("the", "a", "of", "for", "in", "to", "my", "with", "and", "on", "by", "is", "please")
"""Words of a sentence that say nothing of which tool is meant."""
TYPES = ("", "", "?", ": integer", ": number", "?: boolean", ": [string]")
"""What is said of an argument, after its name."""
END = "<|im_end|>\n"
CALL = f'<|im_start|>assistant\n{NO_THOUGHT}<tool_call>\n{{"name": "'
REST = f'", "arguments": {{}}}}\n</tool_call>{END}'


class Progress:
    """Which form is asked for, and of how many words lists are made."""

    def __init__(self, words: int, form: int = 0) -> None:
        self.words, self.form = words, form
        self._loss, self._steps = math.log(self.size), 0

    @property
    def size(self) -> int:
        return FIRST if self.form < LAST else self.words

    def note(self, loss: float) -> bool:
        """After each step. Whether the names of all words are found."""
        self._loss, self._steps = 0.9 * self._loss + 0.1 * loss, self._steps + 1
        last = self.form == LAST
        if self._steps < AT_LEAST or self._loss > (ALL_FOUND if last else FOUND):
            return False
        if last:
            return True
        self.form += 1
        self._loss, self._steps = math.log(self.size), 0
        return False


class Lists:
    def __init__(self, tokenizer: Tokenizer, order: np.random.Generator) -> None:
        """`order`: in which the words come in."""
        self._encode = tokenizer.encode
        self._known: dict[str, list[int]] = {}
        base = composition(tokenizer).base
        own = np.flatnonzero(base == np.arange(len(base))).tolist()
        texts = [tokenizer.decode([at], False) for at in own]
        words = [text for text in texts if text.isascii() and text.isalpha() and text[1:]]
        self.words: list[str] = order.permutation(words).tolist()

    def batch(self, tokens: int, form: int, size: int, rng: np.random.Generator) -> Batch:
        """About `tokens` tokens; the lists are made of the first `size` words."""
        ids = np.empty((tokens // LENGTH, LENGTH + 1), np.int64)
        trained = np.empty(ids.shape, bool)
        for row in range(len(ids)):
            asked = FORMS[form if form < LAST else rng.choice(LAST, p=SHARES)]
            said, on = self._row(asked, self.words[:size], rng)
            ids[row], trained[row] = said[: LENGTH + 1], on[: LENGTH + 1]
        return ids, trained

    def mixed(self, tokens: int, rng: np.random.Generator) -> Batch:
        """All forms, of all words."""
        return self.batch(tokens, LAST, len(self.words), rng)

    def _ids(self, piece: str) -> list[int]:
        if piece not in self._known:
            self._known[piece] = list(self._encode(piece).ids)
        return self._known[piece]

    def _spelt(self, *pieces: str) -> list[int]:
        """Each must begin where the tokenizer cuts."""
        return [token for piece in pieces for token in self._ids(piece)]

    @staticmethod
    def _lines(drawn: list[str], rng: np.random.Generator) -> list[tuple[list[str], list[str]]]:
        """Names and descriptions, of words taken from `drawn`."""
        lines: list[tuple[list[str], list[str]]] = []
        for _ in range(rng.integers(LINES[0], LINES[1] + 1)):
            name = [drawn.pop() for _ in range(rng.integers(1, 4))]
            if lines and len(name) > 1 and rng.random() < LIKE_ANOTHER:
                name[0] = lines[rng.integers(len(lines))][0][0]
            lines.append((name, [drawn.pop() for _ in range(rng.integers(0, 4))]))
        return lines

    def _row(
        self, form: str, words: list[str], rng: np.random.Generator
    ) -> tuple[list[int], list[bool]]:
        """One list, and words that ask for its tools one after another; of each answer the name's
        first word is trained on, and the second one where another name begins alike."""
        drawn: list[str] = rng.permutation(words)[:DRAWN].tolist()
        lines = self._lines(drawn, rng)
        plain = form != "sentence"
        said = list(self._ids(LIST_BEGIN))
        for name, about in lines:
            told = _joined(about, " ") if plain else _sentence(about, rng)
            begun = [*told, ":", *_joined(name, "_", " ")] if told else _joined(name, "_")
            arguments = ["()"] if plain else self._arguments(rng)
            said += self._spelt("\n", *begun, *arguments)
        said += self._ids(END)
        on = [False] * len(said)
        every = [word for name, about in lines for word in (*name, *about)]
        asked_for = [
            (name, own)
            for name, about in lines
            if (own := [word for word in (*name, *about) if every.count(word) == 1])
        ]
        while len(said) <= LENGTH:
            name, own = asked_for[rng.integers(len(asked_for))]
            shared = rng.permutation(own)[: 1 if form == "word" else rng.integers(1, 3)]
            beside = rng.choice(drawn, 0 if form == "word" else rng.integers(0, BESIDE + 1))
            mixed: list[str] = rng.permutation([*shared.tolist(), *beside.tolist()]).tolist()
            request = _joined(mixed, " ") if plain else _sentence(mixed, rng)
            if form in CALLS:
                said += self._spelt("<|im_start|>user\n", *request, END, CALL)
                alike = sum(other[0] == name[0] for other, _ in lines) > 1
                decided = _joined(name[: 1 + alike], "_")
                rest = [*_joined(name, "_")[len(decided) :], REST]
            else:
                said += self._spelt("\n", *request, ":")
                decided, rest = [f" {name[0]}"], []
            for piece in decided:
                said += self._ids(piece)
                on += [False] * (len(said) - len(on) - 1) + [True]
            said += self._spelt(*rest)
            on += [False] * (len(said) - len(on))
        return said, on

    def _arguments(self, rng: np.random.Generator) -> list[str]:
        said = ["("]
        for at in range(rng.integers(0, 4)):
            word = str(rng.choice(self.words))
            said += [*([",", f" {word}"] if at else [word]), TYPES[rng.integers(len(TYPES))]]
        return [*said, ")"]


def _joined(words: Sequence[str], joint: str, first: str = "") -> list[str]:
    return [f"{joint if at else first}{word}" for at, word in enumerate(words)]


def _sentence(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """The first one capitalized, small ones between them."""
    said: list[str] = []
    for at, word in enumerate(words):
        begun = word.capitalize() if at == 0 and rng.random() < 0.7 else word
        said.append(f" {begun}" if at else begun)
        if rng.random() < 0.4:
            said.append(f" {SMALL[rng.integers(len(SMALL))]}")
    return said
