from __future__ import annotations

import re
from itertools import product

import pytest

from toolgate_core.schema.regular.kinds import shortest_of_each_kind
from toolgate_core.schema.regular.languages import Long, Matching
from toolgate_core.schema.regular.syntax import Unsupported

PATTERNS = ("a", "^b", "^.{1,2}$", "a$", "^[ab]*$")


def test_there_is_one_of_the_shortest_strings_for_each_kind() -> None:
    found = shortest_of_each_kind([*map(Matching, PATTERNS)])
    by_hand: dict[tuple[bool, ...], int] = {}
    for length in range(5):
        for characters in product("abc\n", repeat=length):
            text = "".join(characters)
            kind = tuple(
                re.search(pattern.replace("$", r"\Z"), text) is not None for pattern in PATTERNS
            )
            by_hand.setdefault(kind, length)
    assert {kind: len(text) for kind, text in found.items()} == by_hand
    for kind, text in found.items():
        assert kind == tuple(
            re.search(pattern.replace("$", r"\Z"), text) is not None for pattern in PATTERNS
        )


def test_characters_are_letters_or_digits_if_possible() -> None:
    found = shortest_of_each_kind([Matching(r"^[\x00-\x7f]$"), Matching("[0-9]")])
    assert found[True, False] == "a"
    assert found[True, True] == "0"
    assert shortest_of_each_kind([Matching("^[!-+]$")])[(True,)] == "!"


def test_without_languages_there_is_one_kind() -> None:
    assert shortest_of_each_kind([]) == {(): ""}
    assert shortest_of_each_kind([Long(3)])[(True,)] == "aaa"


def test_a_pattern_that_is_not_regular_is_refused() -> None:
    with pytest.raises(Unsupported):
        shortest_of_each_kind([Matching(r"(a)\1")])
