"""Kinds whose value is not simply what was said: sums, key words of a phrase, facts."""

from __future__ import annotations

import re
from functools import cache

from .kinds import Said, Schema, Shape, small
from .words import Section, Words, sections

SURE = 0.9
"""What the model says of an answer it knows; of one it does not know, 0."""


@cache
def facts() -> dict[str, Section]:
    return sections("facts")


def stars(words: Words) -> Shape:
    one = small(1, 5, worded=0)
    return Shape({"type": "integer", "minimum": 1, "maximum": 5}, lambda: one(words))


def digits(words: Words) -> Shape:
    """A number that is never said in words, so that marks may stand beside it: `27/9`."""

    def draw() -> Said:
        return small(1, words.rng.choice((9, 20, 99, 300)), worded=0)(words)

    return Shape({"type": "integer"}, draw)


def version(words: Words) -> Shape:
    def draw() -> Said:
        rng = words.rng
        number = ".".join(str(rng.randint(0, 19)) for _ in range(rng.choice((2, 3, 3))))
        text = rng.choice((number, number, f"v{number}", f"{number}-rc{rng.randint(1, 4)}"))
        return Said(text, text)

    return Shape({"type": "string"}, draw)


def expression(words: Words) -> Shape:
    def draw() -> Said:
        rng = words.rng
        text = str(rng.randint(1, 999))
        for _ in range(rng.choice((1, 1, 1, 2))):
            text += f"{rng.choice((' + ', ' - ', ' * ', ' / ', '+', '*'))}{rng.randint(1, 99)}"
        return Said(text, text)

    return Shape({"type": "string"}, draw)


def picked(words: Words) -> Shape:
    """The words of a phrase that say something, in their order."""
    exact = words.rng.choice((None, None, 3, 3, 2))
    schema: Schema = {"type": "array", "items": {"type": "string"}}
    if exact:
        schema |= {"minItems": exact, "maxItems": exact}

    def draw() -> Said:
        rng = words.rng
        number = exact or rng.randint(2, 4)
        if words.language == "zh":
            chosen = [words.pick("thing") for _ in range(number)]
            return Said("和".join(chosen), chosen)
        chosen, said = [], []
        while len(chosen) < number:
            left = number - len(chosen)
            group = [
                words.pick("adjective") for _ in range(min(left - 1, rng.choice((0, 1, 1, 2))))
            ]
            noun = words.pick("thing") if rng.random() < 0.8 else words.invented().lower()
            group.append(noun)
            chosen += group
            said.append(f"{rng.choice(('a', 'the', 'my', 'one', ''))} {' '.join(group)}".strip())
        links = (" in ", " with ", " and ", " on ", " by ", " near ", " of ", " under ", " for ")
        text = said[0] + "".join(rng.choice(links) + part for part in said[1:])
        return Said(text, chosen)

    return Shape(schema, draw)


def fact(words: Words) -> Shape:
    def draw() -> Said:
        rng = words.rng
        if rng.random() < 0.3:
            question, _, answer = rng.choice(facts()["short"].trained).partition(" = ")
            return Said(question, answer)
        answer = rng.choice(("yes", "no"))
        statement = rng.choice(facts()[answer].trained)
        ways = (asked(statement), asked(statement), f"is it true that {statement}", f"true or false: {statement}",
                f"i wonder, {asked(statement)}")  # fmt: skip
        return Said(rng.choice(ways), answer)

    return Shape({"type": "string"}, draw)


def asked(statement: str) -> str:
    """`the sky is blue` → `is the sky blue`."""
    auxiliary = re.fullmatch(r"(.+?) (is|are|can) (.+)", statement)
    if auxiliary:
        return f"{auxiliary[2]} {auxiliary[1]} {auxiliary[3]}"
    has = re.fullmatch(r"(.+?) (has|have) (.+)", statement)
    if has:
        return f"{'does' if has[2] == 'has' else 'do'} {has[1]} have {has[3]}"
    return f"is it so that {statement}"


def sure(words: Words) -> Shape:
    return Shape({"type": "number"}, lambda: Said("", SURE))


SPECIAL = {
    "sum": expression,
    "picked": picked,
    "fact": fact,
    "sure": sure,
    "stars": stars,
    "digits": digits,
    "version": version,
}
