"""Arguments of tools that nobody made, and how a request says them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .kind_table import CHOICES, KINDS, OF_ANY, OF_ANY_ZH, SWITCHES, Kind
from .kinds import Shape
from .shapes import COMPOSITES, array, shape
from .verbs import plural
from .words import Words

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
# Two numbers, told apart by their order.
NUMBERS = (("min", "max"), ("low", "high"), ("width", "height"), ("rows", "columns"), ("first", "second"), ("lower", "upper"),
           ("home", "away"), ("x", "y"), ("start", "end"), ("adults", "children"), ("length", "width"), ("a", "b"),
           ("hours", "minutes"), ("base", "exponent"), ("row", "seat"), ("chapter", "page"), ("min_price", "max_price"))  # fmt: skip
BETWEEN = (("{}", "/ {}"), ("{}", "over {}"), ("{}", "by {}"), ("{}", "and {}"), ("from {}", "to {}"), ("between {}", "and {}"),
           ("{}", "x {}"), ("{}", "to {}"), ("of {}", "and {}"), ("{}", ": {}"), ("with {}", "and {}"),
           ("{}", "~/{}"), ("{}", "~x{}"), ("{}", "~-{}"), ("{}", "~:{}"))  # fmt: skip
GLUED = " ~"
"""Nothing stands in its place: `27/9`."""
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
NUMBER_OF_PARTS = {0: 0.08, 1: 0.44, 2: 0.31, 3: 0.17}
"""Shares of the tools that have so many arguments."""
LOOKS = (
    {"person", "company"},
    {"city", "place", "room", "street"},
    {"item", "dish", "song", "movie", "title", "topic", "phrase", "text", "chore", "thing", "word"},
    {"date", "time", "when", "span"},
    {"code", "phone", "zip"},
    {"count", "level", "year", "amount", "degrees", "minutes"},
)
"""Kinds whose values look alike: of two in one request each has to be said by its name."""


@dataclass(frozen=True)
class Part:
    """An argument, and how a request says it."""

    name: str
    kind: str
    shape: Shape
    ways: tuple[str, ...]
    ordered: bool = False
    """Only its place tells which of two numbers it is."""


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


def draw(noun: str, words: Words) -> list[Part]:
    rng = words.rng
    parts: list[Part] = []
    if rng.random() < 0.25:
        parts = [_itself(noun, words)]
    elif words.language == "en" and rng.random() < 0.08:
        kind = rng.choice(("city", "word", "person", "code", "place", "file", "date"))
        names = rng.choice(PAIRS)
        two = (
            ("from {}", "to {}") if rng.random() < 0.7 else (f"{names[0]} {{}}", f"{names[1]} {{}}")
        )
        parts = [
            Part(name, kind, shape(kind, words), (way,))
            for name, way in zip(names, two, strict=True)
        ]
    elif words.language == "en" and rng.random() < 0.06:
        parts = _numbers(words)
    number = rng.choices(list(NUMBER_OF_PARTS), list(NUMBER_OF_PARTS.values()))[0]
    for _ in range(number if not parts else rng.choice((0, 0, 1, 2))):
        part = _part(words)
        if part.name not in {other.name for other in parts}:
            parts.append(part)
    return [
        replace(part, ways=_by_name(words)) if _mistakable(part, parts) else part for part in parts
    ]


def _by_name(words: Words) -> tuple[str, ...]:
    """How any argument is said."""
    return OF_ANY_ZH if words.language == "zh" else OF_ANY


def _mistakable(part: Part, parts: list[Part]) -> bool:
    """Whether nothing but its name tells the argument's value from another one's."""
    look = next((kinds for kinds in LOOKS if part.kind in kinds), {part.kind})
    return len(part.ways) > 1 and any(o is not part and o.kind in look for o in parts)


def _numbers(words: Words) -> list[Part]:
    rng = words.rng
    kind = rng.choice(("level", "count", "level", "amount"))
    names, two = rng.choice(NUMBERS), rng.choice(BETWEEN)
    if rng.random() < 0.3:
        two = (f"{names[0].replace('_', ' ')} {{}}", f"{names[1].replace('_', ' ')} {{}}")
    pairs = zip(names, two, strict=True)
    return [Part(name, kind, shape(kind, words), (way,), ordered=True) for name, way in pairs]


def _part(words: Words) -> Part:
    rng = words.rng
    roll = rng.random()
    ways_of_any = _by_name(words)
    if roll < 0.1:
        choices, names = rng.choice(list(CHOICES.items()))
        name = rng.choice(names.split())
        return Part(name, "choice", shape(choices, words), ways_of_any + ("{} {name}",) * 4)
    if roll < 0.13:
        name = rng.choice(SWITCHES)
        return Part(name, "switch", shape("switch", words), ways_of_any)
    if roll < 0.2:
        kind = rng.choice(PLURAL)
        name = rng.choice(KINDS[kind].names)
        name = rng.choice((plural(name), f"{name}_list", plural(name), name))
        return Part(name, "[]", array(kind, words), ways_of_any + KINDS[kind].joins)
    if roll < 0.24:
        kind = rng.choice(NESTED)
        name = rng.choice({"lines": ("items", "lines", "rows", "entries"), "range": ("period", "dates", "range", "between")}
                          .get(kind, (kind, "data", "details", "info", f"{kind}_info")))  # fmt: skip
        return Part(name, kind, COMPOSITES[kind](words), (*ways_of_any[:2], "for {}", "{}"))
    if roll < 0.245:
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
    if roll < 0.01:
        preposition = rng.choice(PREPOSITIONS)
        return Part(preposition, title, given, (f"{preposition} {{}}",))
    if roll < 0.015:
        name = rng.choice(
            (
                words.invented().lower(),
                f"{name}_{words.invented().lower()}",
                f"{words.pick('adjective')}_{name}",
            )
        )
        return Part(name, title, given, OF_ANY)
    return Part(name, title, given, kind.joins * 12 + OF_ANY)


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
