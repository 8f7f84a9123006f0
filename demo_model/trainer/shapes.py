"""From a kind's expression to an argument's shape.

`city` is a kind, `a|b` an enumeration, `[kind]` an array, `{name:kind, name?:kind}` an object, and
`address`, `lines`, `contact`, `coordinates`, `range`, `money`, `box` are the objects that people say
in their own way. `switch` is a boolean.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .kind_table import KINDS
from .kinds import Said, Schema, Shape
from .words import Words, listed


def shape(expression: str, words: Words) -> Shape:
    """Raises KeyError for an unknown kind."""
    if expression in COMPOSITES:
        return COMPOSITES[expression](words)
    if "|" in expression and not expression.startswith(("[", "{")):
        return enumeration(expression.split("|"), words)
    if expression.startswith("["):
        return array(expression[1:-1], words)
    if expression.startswith("{"):
        return given_object(expression[1:-1], words)
    if expression == "switch":
        return Shape({"type": "boolean"}, lambda: _switch(words))
    kind = KINDS[expression]
    return Shape({"type": kind.type}, lambda: kind.draw(words))


def _switch(words: Words) -> Said:
    on = words.rng.random() < 0.6
    return Said(words.rng.choice(("true", "on", "yes") if on else ("false", "off", "no")), on)


def enumeration(values: list[str], words: Words) -> Shape:
    def draw() -> Said:
        value = words.rng.choice(values)
        said = value.replace("_", " ")
        return Said(said.lower() if words.rng.random() < 0.7 or len(value) > 2 else said, value)

    return Shape({"type": "string", "enum": values}, draw)


def join(texts: list[str], words: Words) -> str:
    """`a, b and c`, in one of the ways people write it."""
    rng = words.rng
    if len(texts) == 1:
        return texts[0]
    if words.language == "zh":
        return (
            "、".join(texts)
            if rng.random() < 0.4
            else "、".join(texts[:-1]) + rng.choice(("和", "跟", "，")) + texts[-1]
        )
    last = rng.choice((" and ", " and ", " and ", ", and ", " & ", ", ", " plus "))
    if any("," in text for text in texts):
        return rng.choice(("; ", " and ")).join(texts)
    if len(texts) == 2 and last == ", ":
        last = " and "  # `Lima, Peru` is one
    return ", ".join(texts[:-1]) + last + texts[-1]


def several_of(given: Shape, number: int) -> list[Said]:
    """Draws that are said differently, as far as there are so many."""
    drawn: dict[str, Said] = {}
    for _ in range(4 * number):
        said = given.draw()
        drawn.setdefault(said.text, said)
        if len(drawn) == number:
            break
    return list(drawn.values())


def array(of: str, words: Words) -> Shape:
    """`[kind*3]` has exactly three."""
    kind, _, exact = of.partition("*")
    item = shape(kind, words)
    schema: Schema = {"type": "array", "items": item.schema}
    if exact:
        schema |= {"minItems": int(exact), "maxItems": int(exact)}

    def draw() -> Said:
        number = int(exact) if exact else words.rng.choice((1, 2, 2, 3, 3, 4))
        drawn = several_of(item, number) if not exact else [item.draw() for _ in range(number)]
        return Said(join([said.text for said in drawn], words), [said.value for said in drawn])

    return Shape(schema, draw)


def record(
    leaves: list[tuple[str, Shape, bool]], say: Callable[[dict[str, str]], str], words: Words
) -> Shape:
    """An object of (name, shape, required) in their order; what is optional comes half of the time."""
    schema: Schema = {
        "type": "object",
        "properties": {name: leaf.schema for name, leaf, _ in leaves},
    }
    schema["required"] = [name for name, _, required in leaves if required]

    def draw() -> Said:
        texts: dict[str, str] = {}
        value: dict[str, Any] = {}
        for index, (name, leaf, required) in enumerate(leaves):
            if required or words.rng.random() < 0.5:
                said = leaf.draw()
                texts[str(index)] = said.text
                value[name] = said.value
        return Said(say(texts), value)

    return Shape(schema, draw)


def given_object(inside: str, words: Words) -> Shape:
    leaves = []
    for part in re.split(r",\s*(?![^\[{]*[\]}])", inside):
        name, _, kind = part.strip().partition(":")
        leaves.append((name.rstrip("?"), shape(kind, words), not name.endswith("?")))
    names = [name.replace("_", " ") for name, _, _ in leaves]

    def say(texts: dict[str, str]) -> str:
        link = words.rng.choice((" ", " ", ": ", " = "))
        return join([f"{names[int(i)]}{link}{text}" for i, text in texts.items()], words)

    return record(leaves, say, words)


def _named(words: Words, kind: str, names: str, required: bool = True) -> tuple[str, Shape, bool]:
    return words.rng.choice(names.split()), shape(kind, words), required


def address(words: Words) -> Shape:
    leaves = [_named(words, "street", "street street_address line1 road"), (
        words.rng.choice(("city", "town")), Shape({"type": "string"}, lambda: _town(words)), True)]  # fmt: skip
    if words.rng.random() < 0.6:
        leaves.append(
            _named(words, "zip", "zip postal_code postcode zip_code", words.rng.random() < 0.5)
        )
    return record(leaves, lambda texts: ", ".join(texts.values()), words)


def _town(words: Words) -> Said:
    name = words.pick("city")
    return Said(name, name)


def lines(words: Words) -> Shape:
    """`2 pizzas and 3 cokes`: an array of objects."""
    kind = words.rng.choice(("item", "dish", "item", "code"))
    name = words.rng.choice(listed("name item product sku dish title"))
    count = words.rng.choice(listed("quantity count amount qty number"))
    leaves = [(name, shape(kind, words), True), (count, shape("count", words), True)]
    if words.rng.random() < 0.5:
        leaves.reverse()
    first = 0 if leaves[0][0] == count else 1
    between = words.rng.choice((" ", " ", " x ", " of ", "x "))

    def say(texts: dict[str, str]) -> str:
        return f"{texts[str(first)]}{between}{texts[str(1 - first)]}"

    one = record(leaves, say, words)

    def draw() -> Said:
        drawn = [one.draw() for _ in range(words.rng.choice((1, 2, 2, 3)))]
        return Said(join([said.text for said in drawn], words), [said.value for said in drawn])

    return Shape({"type": "array", "items": one.schema}, draw)


def _pair(words: Words, a: tuple[str, str], b: tuple[str, str], says: tuple[str, ...]) -> Shape:
    way = words.rng.choice(says)
    leaves = [_named(words, *a), _named(words, *b)]
    return record(leaves, lambda texts: way.format(texts["0"], texts["1"]), words)


def contact(words: Words) -> Shape:
    return _pair(words, ("person", "name full_name person"), ("email", "email mail address"),
                 ("{} ({})", "{}, {}", "{} <{}>", "{} with email {}", "{} at {}"))  # fmt: skip


def coordinates(words: Words) -> Shape:
    def number() -> Said:
        value = round(words.rng.uniform(-80, 80), words.rng.choice((1, 2, 2)))
        return Said(str(value), value)

    leaf = Shape({"type": "number"}, number)
    names = words.rng.choice(
        (("lat", "lon"), ("latitude", "longitude"), ("lat", "lng"), ("x", "y"))
    )
    way = words.rng.choice(("{}, {}", "{} / {}", "latitude {} and longitude {}", "{} and {}"))
    leaves = [(names[0], leaf, True), (names[1], leaf, True)]
    return record(leaves, lambda texts: way.format(texts["0"], texts["1"]), words)


def period(words: Words) -> Shape:
    says = (
        ("从{}到{}",)
        if words.language == "zh"
        else ("from {} to {}", "between {} and {}", "from {} until {}", "{} to {}")
    )
    return _pair(
        words,
        ("date", "start from begin start_date check_in"),
        ("date", "end until finish end_date check_out"),
        says,
    )


def money(words: Words) -> Shape:
    return _pair(
        words,
        ("amount", "amount value sum"),
        ("currency", "currency unit currency_code"),
        ("{} {}",),
    )


def box(words: Words) -> Shape:
    says = ("{}x{}", "{} by {}", "{} x {}", "{} times {}")
    return _pair(words, ("level", "width w columns"), ("level", "height h rows"), says)


COMPOSITES: dict[str, Callable[[Words], Shape]] = {
    "address": address,
    "lines": lines,
    "contact": contact,
    "coordinates": coordinates,
    "range": period,
    "money": money,
    "box": box,
}
