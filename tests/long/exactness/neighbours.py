"""Values close to an instance, and small values: most of them are invalid in one place."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.5, 3.0, 7, 10, 100, 1e21, 1e-7, 2**53, -(2**53)),
    *(
        "",
        "a",
        "A",
        "0",
        " ",
        "é",
        "\n",
        "ab",
        "aaa",
        "a@b.co",
        "2024-02-30",
        "2024-02-29",
        "x" * 40,
    ),
)
NAMES = ("a", "b", "extra", "")


def neighbours(value: Any, count: int, dice: random.Random) -> Iterator[Any]:
    """Copies of `value` that differ in one or two random places."""
    for _ in range(count):
        changed = [copy.deepcopy(value)]
        for _ in range(dice.choice((1, 1, 1, 2))):
            places = list(_places(changed, 0))
            parent, key = dice.choice(places)
            _change(parent, key, dice)
        yield changed[0]


def small_values(names: list[str], count: int, dice: random.Random) -> Iterator[Any]:
    """Scalars, and random lists and objects with up to three of them."""
    yield from SCALARS
    yield from ([], {})
    known = [*names[:4], *NAMES]
    for _ in range(count):
        yield _small(known, 2, dice)


def _small(names: list[str], depth: int, dice: random.Random) -> Any:
    kind = dice.random()
    if depth and kind < 0.3:
        return [_small(names, depth - 1, dice) for _ in range(dice.randrange(4))]
    if depth and kind < 0.8:
        chosen = dice.sample(names, min(len(names), dice.randrange(4)))
        return {name: _small(names, depth - 1, dice) for name in chosen}
    return dice.choice(SCALARS)


def _places(parent: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    keys = list(parent) if isinstance(parent, dict) else range(len(parent))
    for key in keys:
        yield parent, key
        if isinstance(parent[key], dict | list) and depth < 12:
            yield from _places(parent[key], depth + 1)


def _change(parent: Any, key: Any, dice: random.Random) -> None:
    value = parent[key]
    ways = ["replace", "remove"]
    if isinstance(value, dict):
        ways += ["add", "add"]
    elif isinstance(value, list):
        ways += ["repeat", "append", "shorten"]
    elif isinstance(value, str):
        ways += ["longer", "shorter", "case"]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        ways += ["near", "near", "near"]
    match dice.choice(ways):
        case "remove" if isinstance(parent, dict):
            del parent[key]
        case "add":
            value[dice.choice(NAMES)] = dice.choice(SCALARS)
        case "repeat" if value:
            value.append(copy.deepcopy(dice.choice(value)))
        case "append":
            value.append(dice.choice(SCALARS))
        case "shorten" if value:
            value.pop()
        case "longer":
            parent[key] = value + dice.choice(("a", "0", " ", value[:20], '"', "é", "\\"))
        case "shorter":
            parent[key] = value[: dice.randrange(len(value) + 1)]
        case "case":
            parent[key] = value.swapcase()
        case "near":
            parent[key] = dice.choice((value + 1, value - 1, -value, value + 0.5, value * 1000))
        case _:
            parent[key] = dice.choice(SCALARS)
