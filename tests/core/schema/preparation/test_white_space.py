r"""`\s` and `\S` of patterns: masks allow what all validators accept for them."""

from __future__ import annotations

import re

import jsonschema_rs
import pytest

from toolgate_core.schema.patterns import portable, with_certain_white_space
from toolgate_core.schema.regular.parts import text_of
from toolgate_core.schema.regular.reading import parse

DISPUTED = "\x1c\x1d\x1e\x1f\x85\ufeff"
OTHERS = "\t\n\v\f\r \xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000aZ0_-,é北\u180e\u200b"
PATTERNS = [
    r"^\S$",
    r"^\s$",
    r"^[^\s]$",
    r"^[^\S]$",
    r"^[\S]$",
    r"^[\S ]$",
    r"^[\s,]$",
    r"^[^\s,-]$",
    r"^[^\Sa]$",
    r"^[\s\p{L}]$",
    r"^[^\s\p{L}]$",
    r"^(\s|\S)$",
    r"^[\s\S]$",
    r"^[^\s\S]$",
    r"^[\]\s]$",
    r"^\\S$",
    r"^(?=\S)[^a]$",
    r"^(?!\S)[\s\S]$",
    r"^.$",
    r"^[\x00-\xff]$",
]


def certain(pattern: str) -> str:
    return text_of(with_certain_white_space(parse(pattern)))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_masks_allow_matches_everywhere(pattern: str) -> None:
    for character in DISPUTED + OTHERS:
        if matches(certain(pattern), character):
            assert matches(portable(pattern), character), hex(ord(character))
            if r"\p" not in pattern and "!" not in pattern:
                assert re.search(pattern, character), hex(ord(character))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_characters_that_nobody_disputes_match_as_before(pattern: str) -> None:
    for character in OTHERS:
        expected = matches(portable(pattern), character)
        assert matches(certain(pattern), character) == expected, hex(ord(character))


@pytest.mark.parametrize("pattern", [r"^[\s\S]*$", r"^[a-z]+\\s$", r"^[\x00-\xff]$", r"^(?!\s)a"])
def test_other_patterns_are_unchanged(pattern: str) -> None:
    assert with_certain_white_space(parse(pattern)) == parse(pattern)


def matches(pattern: str, text: str) -> bool:
    return jsonschema_rs.is_valid({"pattern": pattern}, text)
