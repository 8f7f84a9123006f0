"""Tools that nobody made: any verb, noun and arguments, and requests for them in plain words."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .kind_table import CHOICE_NAMES, CHOICES, KINDS, OF_ANY, OF_ANY_ZH, SWITCHES, Kind
from .kinds import Schema, Shape
from .shapes import COMPOSITES, array, join, several_of, shape
from .tools import Call, Task, Tool
from .verbs import Verb, both_languages, classes, nouns, plural
from .words import Language, Words

NESTED = ("address", "contact", "coordinates", "range", "money", "box", "lines")
PLURAL = (
    "item",
    "person",
    "word",
    "thing",
    "city",
    "code",
    "email",
    "file",
    "title",
    "language",
    "color",
)
# A place or a person in two parts, told apart by their names.
PAIRS = (("from", "to"), ("source", "target"), ("origin", "destination"), ("src", "dst"), ("old", "new"),
         ("start", "end"), ("sender", "receiver"), ("a", "b"), ("from_id", "to_id"), ("before", "after"))  # fmt: skip
PREPOSITIONS = (
    "in",
    "on",
    "at",
    "for",
    "from",
    "to",
    "by",
    "with",
    "of",
    "about",
    "into",
    "after",
    "before",
    "under",
    "via",
)


@dataclass(frozen=True)
class Part:
    """An argument, and how a request says it."""

    name: str
    kind: str
    shape: Shape
    ways: tuple[str, ...]


def draw(words: Words) -> Task:
    zh = words.language == "zh"
    rng = words.rng
    noun, verb_class, zh_noun, zh_verb = _about(words)
    named = rng.choice(classes()[verb_class])
    parts = _parts(noun, words)
    said = [part for part in parts if rng.random() < (0.95 if part is parts[0] else 0.7)]
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
        request, question = _chinese(zh_verb, zh_noun, said, texts, words), False
    else:
        request, question = _english(verb_class, named, noun, said, texts, tool.name, words)

    def call(index: int) -> Call:
        ordered = [part.name for part in parts if part.name in drawn]
        values = {name: drawn[name][min(index, len(drawn[name]) - 1)].value for name in ordered}
        return Call(tool.name, {name: values[name] for name in tool.properties if name in values})

    several = max(len(values) for values in [[0], *drawn.values()])
    calls = tuple(call(i) for i in range(several))
    follow_up = None
    if first and several == 1 and first.kind in KINDS and KINDS[first.kind].many:
        other = first.shape.draw()
        follow_up = (other.text, Call(tool.name, {**calls[0].arguments, first.name: other.value}))
    return Task(f"{verb_class} {noun}", words.language, tool, request, question, calls,
                _siblings(verb_class, noun, parts, words), follow_up)  # fmt: skip


def _about(words: Words) -> tuple[str, str, str, str]:
    """Noun, class of verbs, and both in Chinese."""
    rng = words.rng
    if words.language == "zh":
        noun, zh_noun = rng.choice(both_languages()["noun"])
        verb_class, zh_verb = rng.choice(both_languages()["verb"])
        return noun, verb_class, zh_noun, zh_verb
    fitting, section = rng.choice(nouns())
    noun = rng.choice(words.entries(section)) if rng.random() < 0.93 else words.invented().lower()
    return noun, rng.choice(fitting), "", ""


def _itself(noun: str, words: Words) -> Part:
    """Which one is meant: `order_id`, `door`, `playlist_name`."""
    thing = noun.replace(" ", "_")
    name = words.rng.choice(
        (f"{thing}_id", f"{thing}_id", thing, f"{thing}_name", f"{thing}_number", "id", "name")
    )
    kind = words.rng.choice(
        ("code", "word") if name.endswith(("id", "number")) else ("word", "thing", "title", "code")
    )
    if words.language == "zh":
        return Part(name, kind, shape(kind, words), OF_ANY_ZH)
    ways = (
        "{}",
        "{}",
        "{}",
        "number {}",
        "called {}",
        "named {}",
        "with id {}",
        "with the {name} {}",
    )
    return Part(name, kind, shape(kind, words), ways)


def _parts(noun: str, words: Words) -> list[Part]:
    rng = words.rng
    parts: list[Part] = []
    if rng.random() < 0.25:
        parts = [_itself(noun, words)]
    elif words.language == "en" and rng.random() < 0.12:
        kind = rng.choice(("city", "word", "person", "code", "place", "file", "date"))
        names = rng.choice(PAIRS)
        two = (
            ("from {}", "to {}") if rng.random() < 0.7 else (f"{names[0]} {{}}", f"{names[1]} {{}}")
        )
        parts = [
            Part(name, kind, shape(kind, words), (way,))
            for name, way in zip(names, two, strict=True)
        ]
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3)) if not parts else rng.choice((0, 0, 1))):
        part = _part(words)
        if part.name not in {other.name for other in parts}:
            parts.append(part)
    return parts


def _part(words: Words) -> Part:
    rng = words.rng
    roll = rng.random()
    ways_of_any = OF_ANY_ZH if words.language == "zh" else OF_ANY
    if roll < 0.1:
        name = rng.choice(CHOICE_NAMES)
        return Part(
            name, "choice", shape(rng.choice(CHOICES), words), ways_of_any + ("{} {name}",) * 4
        )
    if roll < 0.14:
        name = rng.choice(SWITCHES)
        return Part(name, "switch", shape("switch", words), ways_of_any)
    if roll < 0.24:
        kind = rng.choice(PLURAL)
        name = rng.choice(KINDS[kind].names)
        name = rng.choice((plural(name), f"{name}_list", plural(name), name))
        return Part(name, "[]", array(kind, words), ways_of_any + KINDS[kind].joins)
    if roll < 0.31:
        kind = rng.choice(NESTED)
        name = rng.choice({"lines": ("items", "lines", "rows", "entries"), "range": ("period", "dates", "range", "between")}
                          .get(kind, (kind, "data", "details", "info", f"{kind}_info")))  # fmt: skip
        return Part(name, kind, COMPOSITES[kind](words), ways_of_any[:2] + ("for {}", "{}"))
    if roll < 0.35:
        return _object(words)
    kind = rng.choice(list(KINDS))
    return _flat(KINDS[kind], kind, words)


def _flat(kind: Kind, title: str, words: Words) -> Part:
    rng = words.rng
    name = rng.choice(kind.names)
    roll = rng.random()
    given = shape(title, words)
    if words.language == "zh":
        return Part(name, title, given, OF_ANY_ZH)
    if roll < 0.12:
        preposition = rng.choice(PREPOSITIONS)
        return Part(preposition, title, given, (f"{preposition} {{}}",))
    if roll < 0.2:
        name = rng.choice(
            (
                words.invented().lower(),
                f"{name}_{words.invented().lower()}",
                f"{words.pick('adjective')}_{name}",
            )
        )
        return Part(name, title, given, OF_ANY)
    return Part(name, title, given, kind.joins * 4 + OF_ANY)


def _object(words: Words) -> Part:
    rng = words.rng
    leaves: dict[str, str] = {}
    for kind in rng.sample(sorted(KINDS), rng.randint(2, 3)):
        leaves[rng.choice(KINDS[kind].names)] = kind
    first, *_ = leaves
    optional = {name: rng.choice(("", "", "?")) if name != first else "" for name in leaves}
    inside = ", ".join(f"{name}{optional[name]}:{kind}" for name, kind in leaves.items())
    name = rng.choice(
        (
            "filter",
            "options",
            "data",
            "payload",
            "config",
            "details",
            "body",
            "meta",
            "record",
            "entry",
            "settings",
        )
    )
    ways = (
        ("with {}", "with {name} {}", "where {}", ": {}") if words.language == "en" else OF_ANY_ZH
    )
    return Part(name, "{}", shape(f"{{{inside}}}", words), ways)


def _tool(verb: Verb, noun: str, parts: list[Part], said: list[Part], words: Words) -> Tool:
    rng = words.rng
    thing = noun.replace(" ", "_")
    base = verb.base
    roll = rng.random()
    name = f"{base}_{thing}"
    if roll < 0.1:
        name = thing
    elif roll < 0.17:
        name = f"{thing}_{base}"
    elif roll < 0.25:
        head, *rest = name.split("_")
        name = head + "".join(part.capitalize() for part in rest)
    elif roll < 0.3:
        name = name.replace("_", "-")
    elif roll < 0.38:
        name = f"{base}_{plural(thing)}"
    elif roll < 0.43:
        name = f"{rng.choice(('api', 'app', 'shop', 'svc', 'crm', 'hub'))}_{name}"
    nonsense = roll > 0.9
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
    if not nonsense and rng.random() < 0.35:
        description = ""
    required = tuple(part.name for part in parts if part in said and rng.random() < 0.7)
    properties: dict[str, Schema] = {part.name: part.shape.schema for part in parts}
    return Tool(name, description, properties, required)


def _siblings(verb_class: str, noun: str, parts: list[Part], words: Words) -> tuple[Tool, ...]:
    """The same noun with another verb, and the same verb with another noun."""
    rng = words.rng
    others = [title for title in classes() if title != verb_class and {title, verb_class} not in (
        {"get", "list"}, {"buy", "book"}, {"start", "enable"}, {"stop", "disable"}, {"buy", "make"}, {"open", "make"},
        {"start", "open"}, {"remove", "stop"}, {"approve", "verify"}, {"get", "track"}, {"get", "open"})]  # fmt: skip
    found = []
    for title in rng.sample(others, 2):
        found.append(_tool(rng.choice(classes()[title]), noun, parts[:1], [], words))
    fitting, section = rng.choice(nouns())
    other = rng.choice(words.entries(section))
    if verb_class in fitting and other != noun:
        found.append(_tool(rng.choice(classes()[verb_class]), other, parts[:2], [], words))
    return tuple(found)


def _phrases(said: list[Part], texts: dict[str, str], words: Words) -> list[str]:
    rng = words.rng
    phrases = []
    for part in said:
        name = part.name.replace("_", " ") if rng.random() < 0.85 else part.name
        phrases.append(
            rng.choice(part.ways).replace("{name}", name).replace("{}", texts[part.name])
        )
    if len(phrases) > 1 and rng.random() < 0.4 and not any("text" in part.kind for part in said):
        rng.shuffle(phrases)
    return phrases


def _english(verb_class: str, named: Verb, noun: str, said: list[Part], texts: dict[str, str], tool: str,
             words: Words) -> tuple[str, bool]:  # fmt: skip
    """The request, and whether it is a question or wish."""
    rng = words.rng
    verb = named if rng.random() < 0.5 else rng.choice(classes()[verb_class])
    tail = " ".join(_phrases(said, texts, words))
    first = texts[said[0].name] if said else ""
    a = rng.choice(("the ", "the ", "a ", "my ", "", "that "))
    roll = rng.random()
    if len(said) == 1 and roll < 0.3:
        # The value alone: `archive T-113`, `ping web01`.
        return rng.choice((f"{verb.said} {first}", f"{verb.said} {noun} {first}", f"{verb.said} {a}{noun} {first}",
                           f"{verb.said} {first} {noun}")), False  # fmt: skip
    if roll < 0.05:
        listed = ", ".join(f"{part.name}={texts[part.name]}" for part in said)
        return rng.choice(
            (f"call {tool} {tail}", f"use {tool} {tail}", f"{tool} {tail}", f"run {tool}: {listed}")
        ).strip(), False
    if verb_class in ("get", "list", "track", "measure", "compute") and roll < 0.55:
        ways = (f"what is the {noun} {tail}", f"what's the {noun} {tail}", f"do you know the {noun} {tail}",
                f"i wonder what the {noun} {tail} is", f"{noun} {tail}", f"i need the {noun} {tail}",
                f"i'd like to know the {noun} {tail}", f"any {noun} {tail}", f"is there a {noun} {tail}",
                f"can you tell what the {noun} {tail} is", f"i'm curious about the {noun} {tail}",
                f"how about the {noun} {tail}", f"what are the {plural(noun)} {tail}", f"i want to see the {noun} {tail}")  # fmt: skip
        return rng.choice(ways).strip(), True
    if roll < 0.68:
        ways = (f"i need {a}{noun} {verb.participle} {tail}", f"i want {a}{noun} {verb.participle} {tail}",
                f"it is time for {verb.gerund} {a}{noun} {tail}", f"{a}{noun} {tail} should be {verb.participle}",
                f"how about {verb.gerund} {a}{noun} {tail}", f"{a}{noun} has to be {verb.participle} {tail}",
                f"would you mind {verb.gerund} {a}{noun} {tail}", f"i'd like {a}{noun} {verb.participle} {tail}",
                f"we must {verb.said} {a}{noun} {tail}", f"i have to {verb.said} {a}{noun} {tail}",
                f"{a}{noun} needs {verb.gerund} {tail}")  # fmt: skip
        return rng.choice(ways).strip(), True
    return f"{verb.said} {a}{noun} {tail}".strip(), False


def _chinese(verb: str, noun: str, said: list[Part], texts: dict[str, str], words: Words) -> str:
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


def distractor(words: Words) -> Tool:
    """A random tool that nothing is asked of."""
    language: Language = "en" if words.rng.random() < 0.9 else words.language
    return draw(Words(words.rng, language, held=words.held)).tool
