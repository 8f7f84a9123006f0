"""The tokenizer: byte-level BPE in which a word is cut alike wherever it stands.

BPE is learned from small letters, without spaces. Each word's pieces then get forms of their own:
capitalized, after a space, after an underscore. So `weather`, ` Weather` and the end of `get_weather`
are one token each, and since the training puts each together from one part for the word and one for
its form (`Composition`), a value is the same in prose, in a tool's name and in JSON.

Digits, marks and CJK characters are tokens of their own; the runs of marks between JSON's values are
cut so that they never take in a value's first or last character.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .words import characters, everyday

VOCABULARY = 4864
LEARNED = 2300
"""Tokens of small letters, bytes and marks; the rest are their forms."""
WORD_TIMES, CHARACTER_TIMES = 20, 1000
"""How often everyday words and Chinese characters are read, beside the conversations: characters so
often that they are tokens, words so seldom that most are put together from pieces. New words are made
of the same pieces, and pieces that come in many words are what copying is learned of."""
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
JSON_MARKS = r'[{}\[\]"]+(?:[:,] [{}\[\]"]*)?|[:,] [{}\[\]"]+'
"""Between values: `": "`, `"], "`, `, "`."""
SPACE, UNDERSCORE = "\u0120", "_"
"""As byte-level BPE writes them."""
FORMS = ("after a space", "after an underscore", "capitalized")


@dataclass(frozen=True)
class Composition:
    """What each token is put together from."""

    base: npt.NDArray[np.int64]
    """(vocabulary,): the token that is its word or piece in small letters; itself where it has no
    form."""
    forms: npt.NDArray[np.bool_]
    """(vocabulary, FORMS): those that it has."""


def pieces(*, led: bool) -> str:
    """The regular expression of what BPE merges within: words with the space or underscore before
    them, or without."""
    letters = r"\p{Lu}?[\p{Ll}\p{M}]+|\p{Lu}+(?![\p{Ll}\p{M}])|[\p{L}\p{M}]"
    number, word = (r" ?\p{N}", f"[ _]?(?:{letters})") if led else (r"\p{N}", letters)
    signs = r"[\u3400-\u9fff\u3000-\u303f\uff00-\uffef]"
    return rf"\n+|\?:|{JSON_MARKS}|{signs}|{number}|{word}|\s|."


def spelt() -> Iterator[str]:
    """Everyday words, capitalized too, and Chinese characters."""
    for character in characters():
        yield from (character,) * CHARACTER_TIMES
    for section in everyday().values():
        for word in (*section.trained, *section.held):
            yield from (f"{word} {word.capitalize()} {word}_{word}",) * WORD_TIMES


def train(texts: Iterable[str]) -> Tokenizer:
    """Exits with a message when the texts do not fill the vocabulary."""
    read = list(texts)
    learned = _byte_level(models.BPE(), led=False)
    trainer = trainers.BpeTrainer(
        vocab_size=LEARNED,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
    )
    learned.train_from_iterator((text.lower() for text in read), trainer)
    model = json.loads(learned.to_str())["model"]
    merges = with_forms([(left, right) for left, right in model["merges"]])
    alphabet = [token for token in model["vocab"] if len(token) == 1]
    tokenizer = _of(alphabet, merges)
    said = Counter(
        token
        for encoding in tokenizer.encode_batch(read, add_special_tokens=False)
        for token in encoding.tokens
    )
    room = VOCABULARY - len(SPECIAL) - len(MARKS) - len(alphabet)
    tokenizer = _of(alphabet, kept(merges, set(model["vocab"]), said, room))
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in MARKS])
    if tokenizer.get_vocab_size() != VOCABULARY:
        sys.exit(f"the texts are too few: {tokenizer.get_vocab_size()} tokens of {VOCABULARY}")
    return tokenizer


Merge = tuple[str, str]


def with_forms(learned: list[Merge]) -> list[Merge]:
    """The same merges of words that begin with a capital, each after its own; and last, when all
    pieces are made, of a space or an underscore with the piece that follows."""
    merges: list[Merge] = []
    for left, right in learned:
        merges.append((left, right))
        if _is_word(left + right):
            merges.append((left.capitalize(), right))
    letters = [chr(at) for at in (*range(ord("a"), ord("z") + 1), *range(ord("A"), ord("Z") + 1))]
    words = [token for token in ("".join(merge) for merge in merges) if _is_word(token.lower())]
    for token in (*letters, *words):
        merges += [(SPACE, token), (UNDERSCORE, token)]
    return merges + [(SPACE, digit) for digit in "0123456789"]


def kept(merges: list[Merge], learned: set[str], said: Counter[str], room: int) -> list[Merge]:
    """At most `room` of them: all that were learned, and of the forms those said most, with those
    that they are made of."""
    made = {"".join(merge): merge for merge in merges}
    chosen = {token for token in made if token in learned}
    for token, _ in said.most_common():
        needed: list[str] = []
        waiting = [token]
        while waiting:
            each = waiting.pop()
            if each in made and each not in chosen:
                needed.append(each)
                waiting += made[each]
        if len(chosen) + len(needed) <= room:
            chosen.update(needed)
    return [merge for merge in merges if "".join(merge) in chosen]


def composition(tokenizer: Tokenizer) -> Composition:
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    base = np.arange(len(vocabulary))
    forms = np.zeros((len(vocabulary), len(FORMS)), bool)
    for token, at in vocabulary.items():
        led = len(token) > 1 and token[0] in (SPACE, UNDERSCORE)
        word = token[1:] if led else token
        if not (_is_word(word.lower()) or (led and word.isdecimal())):
            continue
        small = word.lower() if word[1:] == word[1:].lower() else word
        if small in vocabulary:
            base[at] = vocabulary[small]
            forms[at] = (token[0] == SPACE, token[0] == UNDERSCORE, small != word)
    return Composition(base, forms)


def _is_word(token: str) -> bool:
    return re.fullmatch("[a-z]+", token) is not None


def _of(alphabet: list[str], merges: list[Merge]) -> Tokenizer:
    tokens = dict.fromkeys([*alphabet, *("".join(merge) for merge in merges)])
    vocabulary = {token: at for at, token in enumerate(tokens)}
    return _byte_level(models.BPE(vocab=vocabulary, merges=merges), led=True)


def _byte_level(model: models.BPE, *, led: bool) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces(led=led)), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
