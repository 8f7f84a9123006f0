"""Random patterns with random texts, and what JavaScript says of them."""

import json
from dataclasses import dataclass

import pytest

from toolgate_core.schema.patterns import matches
from toolgate_core.schema.regular.parts import (
    Alternatives,
    Characters,
    Group,
    Repetition,
    Sequence,
    Unsupported,
    text_of,
)
from toolgate_core.schema.regular.reading import parse

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
    def __init__(self):
        module = pytest.importorskip(
            "quickjs", reason="quickjs-ng, the JavaScript engine of these tests, is not installed"
        )
        self._test = module.Context().eval(TEST)

    def reading(self, pattern, texts):
        """None if the pattern is an error."""
        answer = json.loads(self._test(pattern, json.dumps(texts)))
        return None if answer is None else Reading(*answer)


def random_pattern(random, depth=3):
    pattern = "|".join(_sequence(random, depth) for _ in range(random.choice([1, 1, 1, 2])))
    if random.random() < 0.5:
        pattern = f"^{'(?:' if '|' in pattern else ''}{pattern}{')' if '|' in pattern else ''}$"
    return pattern.replace("(?<n>", "(?<one>", 1).replace("(?<n>", "(")


def _sequence(random, depth):
    return "".join(_piece(random, depth) for _ in range(random.randint(0, 3)))


def _piece(random, depth):
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


def _class(random):
    inside = ""
    for _ in range(random.randint(0, 4)):
        member = random.choice(_MEMBERS)
        # The engine reads `[\d--a]` as no other one does.
        inside += f"a{member}" if member[0] == "-" and inside.endswith(_SETS) else member
    return f"[{'^' if random.random() < 0.3 else ''}{inside}]"


def random_texts(random, count=12):
    return ["".join(random.choices(CHARACTERS, k=random.randint(0, 4))) for _ in range(count)]


ALPHABET = "abcdefghA0123456789_-. /"
PRINTED = "".join(map(chr, range(33, 127)))
MAX_SAMPLE = 10_000
"""Maximum length of what a repeated part matches. Repetitions inside each other multiply it."""
MAX_REPEATED = 64


def sample_of(pattern, choice=0):
    """A short string that a pattern matches; None if none is found. `choice` is the number of the
    alternative and of the character that it takes, where there are several."""
    try:
        text = _sample(parse(pattern), choice)
    except (Unsupported, RecursionError):
        return None
    return text if text is not None and matches(pattern, text) else None


def _sample(part, choice):
    """What a part matches first. None if there is nothing, or it is too long."""
    match part:
        case Characters():
            return _character(part, choice)
        case Sequence(parts):
            found = [_sample(each, choice) for each in parts]
            return None if None in found else "".join(each for each in found if each)
        case Alternatives(options):
            return _sample(options[choice % len(options)], choice)
        case Repetition(one, least):
            text = _sample(one, choice) if least else ""
            if text is None or least > MAX_REPEATED or len(text) * least > MAX_SAMPLE:
                return None
            return text * least
        case Group(one):
            return _sample(one, choice)
    return ""


def _character(part, choice):
    written = f"^{text_of(part)}$"
    found = [each for each in dict.fromkeys(ALPHABET + PRINTED) if matches(written, each)]
    if not found:
        return chr(part.ranges[0][0]) if part.ranges else None
    return found[choice % len(found)]
