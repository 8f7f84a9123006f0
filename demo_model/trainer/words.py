"""The word lists: what is drawn for training, and what is kept for the evaluation."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path
from typing import Literal

DATA = Path(__file__).parent / "data"
HELD_EVERY = 10
"""One entry in so many of a section marked `*` is never trained on."""

Language = Literal["en", "zh"]


def listed(text: str) -> list[str]:
    return text.split()


def lines(name: str) -> list[str]:
    """Of `data/NAME.txt`, without comments and empty lines."""
    text = (DATA / f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


class Section:
    def __init__(self, entries: list[str], *, split: bool) -> None:
        self.trained = [e for i, e in enumerate(entries) if not split or i % HELD_EVERY]
        self.held = [e for i, e in enumerate(entries) if i % HELD_EVERY == 0] if split else entries


def sections(name: str) -> dict[str, Section]:
    """Sections of `data/NAME.txt`. Raises ValueError on a line outside of any section."""
    found: dict[str, Section] = {}
    texts: dict[str, tuple[bool, list[str]]] = {}
    current: list[str] | None = None
    for line in (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        head = re.fullmatch(r"\[(.+?)( \*)?\]", line)
        if head:
            current = []
            texts[head[1]] = (head[2] is not None, current)
        elif current is None:
            raise ValueError(f"{name}.txt: {line!r} stands in no section")
        else:
            current.append(line)
    for title, (split, lines) in texts.items():
        entries = [" ".join(e.split()) for e in " ".join(lines).split(",") if e.strip()]
        found[title] = Section(entries, split=split)
    return found


@cache
def _lists(language: Language) -> dict[str, Section]:
    return sections(f"words_{language}")


def characters() -> list[str]:
    """The Chinese characters of all lists that are trained on."""
    texts = (path.read_text("utf-8") for path in DATA.glob("*.txt") if path.stem != "handwritten")
    return sorted({c for text in texts for c in text if "\u3400" <= c <= "\u9fff"})


@cache
def everyday() -> dict[str, Section]:
    return sections("everyday")


class Words:
    """Draws of one sample: a language, and whether the kept entries or the trained ones are used."""

    def __init__(self, rng: random.Random, language: Language, *, held: bool = False) -> None:
        self.rng = rng
        self.language = language
        self.held = held

    def pick(self, section: str, language: Language | None = None) -> str:
        lists = _lists(language or self.language)
        if section not in lists:
            lists = _lists("en")
        return self.rng.choice(self.entries(lists[section]))

    def entries(self, section: Section) -> list[str]:
        return section.held if self.held else section.trained

    def everyday(self, section: Literal["noun", "verb", "adjective"]) -> str:
        """An English word of no list in particular."""
        return self.rng.choice(self.entries(everyday()[section]))

    def invented(self) -> str:
        """A word of no language: whoever copies it has read it."""
        rng = self.rng
        if self.language == "zh" and rng.random() < 0.5:
            # GB 2312, level 1: the 3,755 most used characters.
            codes = [(rng.randint(0xB0, 0xD6), rng.randint(0xA1, 0xFE)) for _ in range(2)]
            return "".join(bytes(code).decode("gb2312", "replace") for code in codes)
        shape = rng.choice(("cvcv", "cvc", "cvccv", "cvcvc", "vcvc", "ccvcv", "cvcvcv", "cvvc"))
        letters = {"c": "bcdfghjklmnpqrstvwxz", "v": "aeiouy"}
        word = "".join(rng.choice(letters[kind]) for kind in shape)
        return word.capitalize() if rng.random() < 0.5 else word
