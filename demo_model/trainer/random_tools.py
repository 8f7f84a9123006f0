"""Tools that nobody made: any verb, noun and arguments, and requests for them in plain words."""

from __future__ import annotations

from dataclasses import replace

from . import random_requests
from .domains import kept_names, shuffled
from .kind_table import KINDS
from .kinds import Schema
from .parts import Part
from .parts import draw as parts_of
from .shapes import join, several_of
from .tools import Call, Mood, Task, Tool
from .verbs import Verb, both_languages, classes, nouns, plural, verb_of
from .words import Language, Words

EVERYDAY = "everyday"
"""The class of verbs that are asked for by their name alone."""
ALIKE = (
    {"get", "list"}, {"get", "track"}, {"get", "open"}, {"get", "report"}, {"get", "choose"}, {"get", "collect"},
    {"get", "predict"}, {"buy", "book"}, {"buy", "make"}, {"open", "make"}, {"start", "enable"}, {"start", "open"},
    {"stop", "disable"}, {"remove", "stop"}, {"remove", "throw"}, {"approve", "verify"}, {"assign", "donate"},
    {"inspect", "audit"}, {"track", "monitor"}, {"watch", "monitor"}, {"restore", "undo"}, {"draw", "color"},
    {"bill", "charge"}, {"wash", "sort_out"}, {"send", "drop_off"}, {"send", "bring"},
)  # fmt: skip
"""Classes that a request may take for each other."""

NOUN_ALONE = 0.02
"""Of the names. What is done with it, only the description tells then."""


def draw(words: Words) -> Task:
    """Never of a tool that is kept for the evaluation."""
    while True:
        task = _draw(words)
        if task.tool.name not in kept_names():
            return task


def _draw(words: Words) -> Task:
    zh = words.language == "zh"
    rng = words.rng
    noun, verb_class, zh_noun, zh_verb = _about(words)
    everyday = verb_class == EVERYDAY
    verbs = [verb_of(words.everyday("verb"))] if everyday else classes()[verb_class]
    named = rng.choice(verbs)
    parts = parts_of(noun, words)
    said = [part for part in parts if rng.random() < (0.95 if part is parts[0] else 0.7)]
    if not all(part in said for part in parts if part.ordered):
        said = [part for part in said if not part.ordered]
    several = 1
    first = said[0] if said else None
    if first and first.kind in KINDS and KINDS[first.kind].many and rng.random() < 0.2:
        several = rng.choice((2, 2, 3, 4))
    drawn = {part.name: several_of(part.shape, several if part is first else 1) for part in said}
    texts = {name: join([value.text for value in values], words) for name, values in drawn.items()}

    tool = _tool(named, noun, parts, said, words)
    if zh and rng.random() < 0.4:
        tool = replace(tool, description=zh_verb + zh_noun)
    if zh:
        mood: Mood = "order"
        request = random_requests.chinese(zh_verb, zh_noun, said, texts, words)
    else:
        request, mood = random_requests.english(
            verb_class, named, verbs, noun, said, texts, tool.name, words
        )

    def call(index: int) -> Call:
        ordered = [part.name for part in parts if part.name in drawn]
        values = {name: drawn[name][min(index, len(drawn[name]) - 1)].value for name in ordered}
        return Call(tool.name, {name: values[name] for name in tool.properties if name in values})

    several = max([1, *(len(values) for values in drawn.values())])
    calls = tuple(call(i) for i in range(several))
    follow_up = None
    if first and several == 1 and first.kind in KINDS and KINDS[first.kind].many:
        other = first.shape.draw()
        follow_up = (other.text, Call(tool.name, {**calls[0].arguments, first.name: other.value}))
    meaning = _class_of(named) if everyday else verb_class
    return Task(f"{meaning} {noun}", words.language, tool, request, mood, calls,
                _siblings(meaning, noun, parts, noun in request, words), follow_up)  # fmt: skip


def _about(words: Words) -> tuple[str, str, str, str]:
    """Noun, class of verbs, and both in Chinese."""
    rng = words.rng
    if words.language == "zh":
        noun, zh_noun = rng.choice(both_languages()["noun"])
        verb_class, zh_verb = rng.choice(both_languages()["verb"])
        return noun, verb_class, zh_noun, zh_verb
    fitting, section = rng.choice(nouns())
    noun, roll = rng.choice(words.entries(section)), rng.random()
    if roll < 0.2:  # any verb, any noun: nothing to remember them by
        noun = words.everyday("noun")
        fitting = [*classes(), *(EVERYDAY,) * 5]
    elif roll < 0.21:
        noun = words.invented().lower()
    return noun, rng.choice(fitting), "", ""


def _class_of(verb: Verb) -> str:
    """The class that an everyday verb is in as well; else the verb itself."""
    holding = (t for t, verbs in classes().items() if verb.base in {each.base for each in verbs})
    return next(holding, verb.base)


def _tool(verb: Verb, noun: str, parts: list[Part], said: list[Part], words: Words) -> Tool:
    rng = words.rng
    thing = noun.replace(" ", "_")
    base = verb.base
    roll = rng.random()
    name = f"{base}_{thing}"
    if roll < NOUN_ALONE:
        name = thing
    elif roll < 0.05:
        name = f"{thing}_{base}"
    elif roll < 0.11:
        head, *rest = name.split("_")
        name = head + "".join(part.capitalize() for part in rest)
    elif roll < 0.13:
        name = name.replace("_", "-")
    elif roll < 0.19:
        name = f"{base}_{plural(thing)}"
    nonsense = roll > 0.995
    if nonsense:
        name = rng.choice(
            (
                words.invented().lower(),
                f"fn{rng.randint(1, 99)}",
                f"{words.invented().lower()}_{words.invented().lower()}",
            )
        )
        name = name if name.isascii() else f"f{rng.randint(1, 999)}"
    description = f"{verb.said.capitalize()} {rng.choice(('a ', 'the ', ''))}{noun}"
    if rng.random() < 0.3 and parts:
        description += rng.choice((" by ", " for a ", " with a ")) + parts[0].name.replace("_", " ")
    if roll >= NOUN_ALONE and not nonsense and rng.random() < 0.25:
        description = ""
    required = tuple(part.name for part in parts if part in said and rng.random() < 0.7)
    any_order = shuffled(words) and not any(part.ordered for part in parts)
    listed = rng.sample(parts, len(parts)) if any_order else parts
    properties: dict[str, Schema] = {part.name: part.shape.schema for part in listed}
    return Tool(name, description, properties, required)


def _siblings(
    verb_class: str, noun: str, parts: list[Part], told: bool, words: Words
) -> tuple[Tool, ...]:
    """The same noun with another verb and, where the request tells the noun, the same verb with
    another noun."""
    rng = words.rng
    others = [
        title for title in classes() if title != verb_class and {title, verb_class} not in ALIKE
    ]
    found = []
    for title in rng.sample(others, 2):
        found.append(_tool(rng.choice(classes()[title]), noun, parts[:1], [], words))
    fitting, section = rng.choice(nouns())
    other = rng.choice(words.entries(section)) if rng.random() < 0.6 else words.everyday("noun")
    if told and verb_class in fitting and other != noun:
        found.append(_tool(rng.choice(classes()[verb_class]), other, parts[:2], [], words))
    return tuple(tool for tool in found if tool.name not in kept_names())


def distractor(words: Words, groups: set[str]) -> Tool:
    """A random tool that nothing is asked of: it does none of what `groups` do."""
    language: Language = "en" if words.rng.random() < 0.9 else words.language
    while True:
        task = draw(Words(words.rng, language, held=words.held))
        if task.group not in groups:
            return task.tool
