"""Requests for tools that nobody made, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from .kind_table import KINDS, OF_ANY
from .parts import GLUED, Part
from .politeness import mood_of
from .tools import Mood
from .verbs import Verb, questions
from .words import Words

INFORMING = ("get", "list", "track", "inspect")
"""Classes of verbs whose tools answer a question."""
UNNAMED = 0.4
"""Of the requests to such a tool, those that do not name what they are about."""
OBJECT = 0.25
"""Of the requests that say several arguments, those in which one stands for the noun."""
UNBOUNDED = ("text", "topic", "phrase", "title", "chore")
"""Kinds whose values end where the request does."""


def _phrases(said: list[Part], texts: dict[str, str], words: Words) -> list[str]:
    rng = words.rng
    phrases = []
    said = sorted(said, key=lambda part: part.kind in UNBOUNDED)
    for part in said:
        name = part.name.replace("_", " ") if rng.random() < 0.85 else part.name
        phrases.append(
            rng.choice(part.ways).replace("{name}", name).replace("{}", texts[part.name])
        )
    fixed = any(part.ordered or part.kind in UNBOUNDED for part in said)
    if len(phrases) > 1 and not fixed and rng.random() < 0.4:
        rng.shuffle(phrases)
    return phrases


def _joined(said: list[Part], texts: dict[str, str], words: Words) -> str:
    return " ".join(_phrases(said, texts, words)).replace(GLUED, "")


def english(verb_class: str, named: Verb, verbs: Sequence[Verb], noun: str, said: list[Part], texts: dict[str, str], tool: str,
             words: Words) -> tuple[str, Mood]:  # fmt: skip
    """The request."""
    rng = words.rng
    verb = named if rng.random() < 0.8 else rng.choice(verbs)
    tail = _joined(said, texts, words)
    first = texts[said[0].name] if said else ""
    a = rng.choice(("the ", "the ", "a ", "my ", "", "that "))
    known = said and said[0].kind in KINDS and noun in questions() and verb_class in INFORMING
    if known and not said[0].ordered and rng.random() < UNNAMED:
        asked = rng.choice(questions()[noun]).replace("{}", first)
        return f"{asked} {_joined(said[1:], texts, words)}".strip(), "question"
    roll = rng.random()
    if len(said) == 1 and roll < 0.3:
        # The value alone: `archive T-113`, `ping web01`.
        alone = (
            f"{verb.said} {first}",
            f"{verb.said} {noun} {first}",
            f"{verb.said} {a}{noun} {first}",
        )
        return rng.choice(alone), "order"
    # Those that nothing else in the tool looks like.
    objects = [part for part in said if len(part.ways) > 1 and part.ways != OF_ANY]
    if len(said) > 1 and objects and roll < OBJECT:
        # What is done something to is a value: `donate 650 to Acme`.
        it = rng.choice(objects)
        rest = [part for part in said if part is not it]
        return f"{verb.said} {texts[it.name]} {_joined(rest, texts, words)}", "order"
    if roll < 0.02:
        listed = ", ".join(f"{part.name}={texts[part.name]}" for part in said)
        return rng.choice(
            (f"call {tool} {tail}", f"use {tool} {tail}", f"{tool} {tail}", f"run {tool}: {listed}")
        ).strip(), "order"
    if verb_class in ("get", "list", "track", "measure", "compute") and roll < 0.55:
        ways = (f"what is the {noun} {tail}", f"what's the {noun} {tail}", f"do you know the {noun} {tail}",
                f"{noun} {tail}", f"i need the {noun} {tail}", f"i'd like to know the {noun} {tail}",
                f"can you tell me the {noun} {tail}", f"i want to see the {noun} {tail}")  # fmt: skip
        asked = rng.choice(ways).strip()
        return asked, mood_of(asked, "question")
    if roll < 0.61:
        passive = (f"i need {a}{noun} {verb.participle} {tail}", f"i want {a}{noun} {verb.participle} {tail}",
                f"{a}{noun} has to be {verb.participle} {tail}", f"would you mind {verb.gerund} {a}{noun} {tail}",
                f"we must {verb.said} {a}{noun} {tail}", f"i have to {verb.said} {a}{noun} {tail}")  # fmt: skip
        asked = rng.choice(passive).strip()
        return asked, "question" if asked.startswith("would") else "statement"
    return f"{verb.said} {a}{noun} {tail}".strip(), "order"


def chinese(verb: str, noun: str, said: list[Part], texts: dict[str, str], words: Words) -> str:
    rng = words.rng
    if len(said) == 1 and rng.random() < 0.5:
        text = texts[said[0].name]
        return rng.choice(
            (
                f"{verb}{noun}{text}",
                f"{verb}{text}的{noun}",
                f"把{noun}{text}{verb}",
                f"{verb}{text}",
            )
        )
    phrases = _phrases(said, texts, words)
    return "，".join([f"{verb}{noun}", *phrases])
