"""The tools made by hand, read from `data/domains.txt`: parsed once, drawn for each sample."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from itertools import chain

from .kind_table import CHOICES, KINDS, SWITCHES
from .kinds import Schema, Shape, plain
from .politeness import mood_of
from .shapes import join, several_of, shape
from .special import SPECIAL
from .tools import Call, Mood, Task, Tool
from .words import Language, Words, lines

KNOWN, UNSEEN = "domains", "domains_held"
TRAINED = (
    KNOWN,
    "domains_wide",
    "domains_several",
    "domains_nested",
    "domains_trades",
    "domains_asked",
)
MANY_WAYS, FEW = 8, 0.5
"""A tool that is asked for in fewer ways than so many is drawn so much less often."""
SAID, EXTRA = 0.3, 0.25
"""Of the optional parts of a request those that are said, and of the tools those with an argument more."""
SHUFFLED, SHUFFLED_HELD = 0.4, 0.15
"""Of the tools those whose arguments stand in any order, in training and in the evaluation: where they
do, the name tells which value is which, and not the place."""
OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
SLOT = re.compile(r"\{(\w+)\}")
MOODS: dict[str, Mood] = {">": "order", "?": "question", "z": "order", "y": "question"}
LISTED = "a "
"""Before a section of the word lists, whose entries are the values."""
# Arguments that a tool may have besides, and that nothing is said of.
EXTRAS = (("lang", "language"), ("limit", "count"), ("page", "count"), ("format", "short|long"), ("tz", "word"),
          ("verbose", "switch"), ("user_id", "code"), ("timeout", "count"), ("callback_url", "url"))  # fmt: skip


@dataclass(frozen=True)
class Slot:
    name: str
    kind: str
    names: tuple[str, ...]
    many: bool
    optional: bool


@dataclass
class Domain:
    group: str
    names: list[str]
    descriptions: list[str] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    requests: dict[str, list[str]] = field(default_factory=lambda: {m: [] for m in ">?zy"})
    siblings: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    @property
    def weight(self) -> float:
        return 1.0 if sum(map(len, self.requests.values())) >= MANY_WAYS else FEW


@cache
def domains(name: str = KNOWN) -> list[Domain]:
    """`KNOWN`: of all files that are trained on."""
    found: list[Domain] = []
    files = TRAINED if name == KNOWN else (name,)
    for line in chain.from_iterable(map(lines, files)):
        mark, _, rest = line.strip().partition(" ")
        if mark == "@":
            group, _, names = rest.partition(":")
            found.append(Domain(group.strip(), names.split()))
        elif mark == "=":
            found[-1].descriptions += [text.strip() for text in rest.split("|")]
        elif mark == "-":
            found[-1].slots.append(_slot(rest))
        elif mark in (">", "?", "z", "y"):
            found[-1].requests[mark].append(rest)
        elif mark == "~":
            found[-1].siblings.append(rest)
        elif mark == "!":
            found[-1].results.append(rest)
    return found


@cache
def kept_names() -> frozenset[str]:
    """Of the tools that are kept for the evaluation."""
    return frozenset(name for domain in domains(UNSEEN) for name in domain.names)


def _slot(text: str) -> Slot:
    left, _, names = text.partition(" = ")
    head, kind = left.split(" ", 1)
    name = head.rstrip("*?")
    return Slot(name, kind.strip(), tuple(names.split()) or (name,), "*" in head, "?" in head)


def shape_of(kind: str, words: Words) -> Shape:
    if kind.startswith(LISTED):
        return Shape({"type": "string"}, lambda: plain(kind.removeprefix(LISTED))(words))
    return SPECIAL[kind](words) if kind in SPECIAL else shape(kind, words)


def draw(domain: Domain, words: Words) -> Task:
    """One request of this domain, in the language of `words` where it has requests in it."""
    rng = words.rng
    marks = [mark for mark in ("zy" if words.language == "zh" else ">?") if domain.requests[mark]]
    if not marks:
        words = Words(rng, "en", held=words.held)
        marks = [mark for mark in ">?" if domain.requests[mark]]
    pairs = [(mark, text) for mark in marks for text in domain.requests[mark]]
    mark, line = rng.choice(pairs)
    mood = MOODS[mark] if words.language == "zh" else mood_of(line, MOODS[mark])
    request, fixed = _fixed(line)
    request = OPTIONAL.sub(lambda part: part[1] if rng.random() < SAID else "", request)
    said_slots = set(SLOT.findall(request))

    names = _argument_names(domain, words)
    shapes = {slot.name: shape_of(slot.kind, words) for slot in domain.slots}
    always = {slot.name for slot in domain.slots if slot.kind == "sure"}
    used = said_slots | always | set(fixed)
    several = _several(domain, said_slots, words)

    texts: dict[str, str] = {}
    values: dict[str, list[object]] = {}
    for slot in domain.slots:
        if slot.name in fixed:
            values[slot.name] = [fixed[slot.name]]
        elif slot.name in used:
            number = several if slot.many and several > 1 else 1
            drawn = several_of(shapes[slot.name], number)
            texts[slot.name] = join([said.text for said in drawn], words)
            values[slot.name] = [said.value for said in drawn]
    properties: dict[str, Schema] = {}
    required: list[str] = []
    order = [
        slot for slot in domain.slots if slot.name in used or slot.optional or rng.random() < 0.5
    ]
    if shuffled(words):
        rng.shuffle(order)
    for slot in order:
        properties[names[slot.name]] = shapes[slot.name].schema
        if slot.name in used and (not slot.optional or rng.random() < 0.2):
            required.append(names[slot.name])
    request = SLOT.sub(lambda part: texts[part[1]], request)
    if rng.random() < EXTRA:
        _add_extra(properties, request, words)
    tool = Tool(_tool_name(domain, words), _description(domain, words), properties, tuple(required))

    def call(index: int) -> Call:
        arguments = {
            names[slot.name]: values[slot.name][index if len(values[slot.name]) > 1 else 0]
            for slot in order
            if slot.name in used
        }
        return Call(tool.name, arguments)

    several = max([1, *(len(drawn) for drawn in values.values())])
    calls = tuple(call(i) for i in range(several))
    follow_up = None
    many = next((s for s in domain.slots if s.many and s.name in used), None)
    if many is not None and several == 1:
        other = shapes[many.name].draw()
        follow_up = (
            other.text,
            Call(tool.name, {**calls[0].arguments, names[many.name]: other.value}),
        )
    return Task(
        domain.group, words.language, tool, request, mood, calls,
        tuple(sibling(text, words) for text in domain.siblings), follow_up, tuple(domain.results),
    )  # fmt: skip


def shuffled(words: Words) -> bool:
    """Whether the arguments of a tool stand in any order."""
    return words.rng.random() < (SHUFFLED_HELD if words.held else SHUFFLED)


def _fixed(line: str) -> tuple[str, dict[str, str]]:
    """`request ; slot=value`: the words say this value in their own way."""
    request, _, given = line.partition(" ; ")
    slot, _, value = given.partition("=")
    return request, {slot: value} if given else {}


def _several(domain: Domain, said: set[str], words: Words) -> int:
    many = any(slot.many for slot in domain.slots if slot.name in said)
    return words.rng.choice((1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3)) if many else 1


def _argument_names(domain: Domain, words: Words) -> dict[str, str]:
    """Names are often not the usual ones, so that the list has to be read."""
    rng = words.rng
    names: dict[str, str] = {}
    usual = rng.random() < 0.7
    for slot in domain.slots:
        options = list(slot.names)
        alone = sum(other.kind == slot.kind for other in domain.slots) == 1
        if not usual and alone and slot.kind in KINDS and rng.random() < 0.1:
            options += KINDS[slot.kind].names
        name = slot.names[0] if usual else rng.choice(options)
        while name in names.values():
            name = f"{slot.name}_{name}" if rng.random() < 0.5 else f"{name}{rng.randint(2, 9)}"
        names[slot.name] = name
    return names


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _tool_name(domain: Domain, words: Words) -> str:
    rng = words.rng
    name = rng.choice(domain.names)
    roll = rng.random()
    if roll < 0.05:
        return _camel(name)
    if roll < 0.07:
        return name.replace("_", "-")
    return name


@cache
def _chinese() -> dict[str, str]:
    return {line.split()[0]: line.split()[1] for line in lines("descriptions_zh")}


def _description(domain: Domain, words: Words) -> str:
    rng = words.rng
    if rng.random() < 0.12:
        return ""
    if domain.group in _chinese() and rng.random() < (0.4 if words.language == "zh" else 0.06):
        return _chinese()[domain.group]
    return reworded(rng.choice(domain.descriptions), words)


def reworded(text: str, words: Words) -> str:
    """The same description as others would write it."""
    rng = words.rng
    lower = text[:1].lower() + text[1:]
    roll = rng.random()
    if roll < 0.75:
        return text
    if roll < 0.85:
        return f"{text}."
    ways = (f"Use this to {lower}", f"This function can {lower}", f"Tool to {lower}", lower, f"{text} for the user",
            f"{text}, quickly", f"Will {lower}", f"{text} (beta)", f"Lets you {lower}", f"{text} now", f"Helper: {lower}")  # fmt: skip
    return rng.choice(ways)


def _add_extra(properties: dict[str, Schema], request: str, words: Words) -> None:
    """An argument that the request says nothing of."""
    rng = words.rng
    choices, names = rng.choice(list(CHOICES.items()))
    drawn = (
        rng.choice(EXTRAS),
        (rng.choice(SWITCHES), "switch"),
        (rng.choice(names.split()), choices),
    )
    name, kind = rng.choice(drawn)
    given = shape_of(kind, words).schema
    chosen = {str(v).lower() for member in properties.values() for v in member.get("enum", ())}
    said = {*request.lower().split(), *chosen}
    if name not in properties and not said & {str(v).lower() for v in given.get("enum", ())}:
        properties[name] = given


def sibling(text: str, words: Words) -> Tool:
    """`name(arg:kind, arg?:kind) description` as a tool."""
    parts = re.fullmatch(r"(\w+)\((.*?)\) ?(.*)", text)
    if parts is None:
        raise ValueError(f"not a sibling: {text!r}")
    properties, required = {}, []
    for argument in filter(None, (part.strip() for part in parts[2].split(","))):
        name, _, kind = argument.partition(":")
        properties[name.rstrip("?")] = shape(kind, words).schema
        if not name.endswith("?"):
            required.append(name)
    return Tool(parts[1], parts[3], properties, tuple(required))


def languages(domain: Domain) -> tuple[Language, ...]:
    return ("en", "zh") if domain.requests["z"] or domain.requests["y"] else ("en",)
