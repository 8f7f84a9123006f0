"""Verbs by class, with their forms, and the nouns that go with them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from .words import Section, lines, sections


@dataclass(frozen=True)
class Verb:
    base: str
    """As in a tool's name: `turn_on`."""
    gerund: str
    participle: str

    @property
    def said(self) -> str:
        return self.base.replace("_", " ")


@cache
def classes() -> dict[str, list[Verb]]:
    pairs = (line.split(":") for line in lines("verbs"))
    return {title: [verb_of(text) for text in rest.split()] for title, rest in pairs}


def verb_of(text: str) -> Verb:
    """`open`, or `find/finding/found`."""
    base, *forms = text.split("/")
    if forms:
        gerund, participle = (form.replace("_", " ") for form in forms)
        return Verb(base, gerund, participle)
    stem = base[:-1] if base.endswith("e") else base
    if re.fullmatch(r"[^aeiou]+[aeiou][bdgklmnprt]", base):
        stem = base + base[-1]
    return Verb(
        base,
        f"{stem}ing",
        f"{base[:-1]}ied" if base.endswith("y") and base[-2] not in "aeiou" else f"{stem}ed",
    )


def plural(noun: str) -> str:
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es" if not noun.endswith("s") else noun
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"


@cache
def nouns() -> list[tuple[list[str], Section]]:
    """(classes of verbs, nouns)."""
    found = []
    for title, section in sections("nouns").items():
        found.append((title.partition(": ")[2].split(), section))
    return found


@cache
def questions() -> dict[str, list[str]]:
    """From a noun to what asks for it without its name; `{}` is what it is asked of."""
    pairs = (line.split(" = ") for line in lines("questions"))
    return {noun: asked.split(" | ") for noun, asked in pairs}


@cache
def both_languages() -> dict[str, list[tuple[str, str]]]:
    """`noun` and `verb`: (English, Chinese); of verbs the English is a class."""
    return {
        title: [(entry.rpartition(" ")[0], entry.rpartition(" ")[2]) for entry in section.trained]
        for title, section in sections("nouns_zh").items()
    }
