"""Random patterns with random texts, and what JavaScript says of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

TEST = """((source, texts) => {
    const made = flags => {
        try { return new RegExp(source, flags) } catch (error) { return null }
    };
    const read = made("u") ?? made("");
    return JSON.stringify(read && [read.unicode, JSON.parse(texts).map(text => read.test(text))]);
})"""
CHARACTERS = [*"ab-A_0", *"\n\r ./&|~[]^é\u2028", "😀", "ſ"]
_ATOMS = [
    *["a", "b", "0", "-", "_", "é", "/", "&", "~", ".", "😀", "A"],
    *[r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\.", r"\/", r"\-", r"\[", r"\^", r"\|"],
    *[r"\n", r"\r", r"\cM", r"\x61", r"\u0061", r"\u{61}", r"\ud83d\ude00", r"\0", r"\@"],
    *[r"\p{L}", r"\P{Lu}", r"\p{Script=Greek}", "]", "}", "{", "{,2}", "a{b", "<", "!"],
]
_MEMBERS = [
    *["a", "b", "A", "0", "-", "_", "[", "&", "&&", "~~", "--", "^", "/", ".", "é", "😀", "|"],
    *[r"\d", r"\w", r"\W", r"\s", r"\S", r"\]", r"\\", r"\-", r"\b", r"\n", r"\x41", r"\u{41}"],
    *["a-b", "!-~", "/-9", r"\x00-\x20", r"\p{L}", "-", r"\@"],
]
_SETS = (r"\d", r"\w", r"\W", r"\s", r"\S", r"\p{L}")
_QUANTIFIERS = ["*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}", "*?", "+?", "??", "{,2}", "{1"]
_GROUPS = ["(", "(?:", "(?<n>", "(?i:", "(?s:", "(?m:", "(?-i:", "(?=", "(?!", "(?<=", "(?<!"]
_ASSERTIONS = ["^", "$", r"\b", r"\B"]


@dataclass(frozen=True)
class Reading:
    unicode: bool
    """Whether it is read with the flag `u`."""
    found: list[bool]
    """For each text: whether the pattern is found in it."""


class JavaScript:
    def __init__(self) -> None:
        module = pytest.importorskip(
            "quickjs", reason="quickjs-ng, the JavaScript engine of these tests, is not installed"
        )
        self._test: Any = module.Context().eval(TEST)

    def reading(self, pattern: str, texts: list[str]) -> Reading | None:
        """None if the pattern is an error."""
        answer = json.loads(self._test(pattern, json.dumps(texts)))
        return None if answer is None else Reading(*answer)


def random_pattern(random: Random, depth: int = 3) -> str:
    pattern = "|".join(_sequence(random, depth) for _ in range(random.choice([1, 1, 1, 2])))
    if random.random() < 0.5:
        pattern = f"^{'(?:' if '|' in pattern else ''}{pattern}{')' if '|' in pattern else ''}$"
    return pattern.replace("(?<n>", "(?<one>", 1).replace("(?<n>", "(")


def _sequence(random: Random, depth: int) -> str:
    return "".join(_piece(random, depth) for _ in range(random.randint(0, 3)))


def _piece(random: Random, depth: int) -> str:
    kind = random.random()
    if kind < 0.08:
        return random.choice(_ASSERTIONS)
    if kind < 0.3:
        piece = _class(random)
    elif kind < 0.55 and depth:
        inside = "|".join(_sequence(random, depth - 1) for _ in range(random.randint(1, 2)))
        piece = f"{random.choice(_GROUPS)}{inside})"
    else:
        piece = random.choice(_ATOMS)
    return piece + random.choice(_QUANTIFIERS) if random.random() < 0.3 else piece


def _class(random: Random) -> str:
    inside = ""
    for _ in range(random.randint(0, 4)):
        member = random.choice(_MEMBERS)
        # The engine reads `[\d--a]` as no other one does.
        inside += f"a{member}" if member[0] == "-" and inside.endswith(_SETS) else member
    return f"[{'^' if random.random() < 0.3 else ''}{inside}]"


def random_texts(random: Random, count: int = 12) -> list[str]:
    return ["".join(random.choices(CHARACTERS, k=random.randint(0, 4))) for _ in range(count)]
