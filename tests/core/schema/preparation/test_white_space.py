r"""`\s` and `\S` of patterns: what is written for them matches what all validators accept."""

from __future__ import annotations

import re

import jsonschema_rs
import pytest

from toolgate_core.schema.preparation.white_space import (
    with_certain_white_space,
    with_ecma_white_space,
)

DISPUTED = "\x1c\x1d\x1e\x1f\x85\ufeff"
OTHERS = "\t\n\v\f\r \xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000aZ0_-,é北\u180e\u200b"
PATTERNS = [
    r"^\S$",
    r"^\s$",
    r"^[^\s]$",
    r"^[^\S]$",
    r"^[\S]$",
    r"^[\s,]$",
    r"^[^\s,-]$",
    r"^[^\Sa]$",
    r"^(\s|\S)$",
    r"^[\s\S]$",
    r"^[^\s\S]$",
    r"^[\]\s]$",
    r"^\\S$",
    r"^(?=\S)[^a]$",
    r"^(?!\S).$",
    r"^.$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_matches_the_new_pattern_matches_the_old_one_everywhere(pattern: str) -> None:
    certain = with_certain_white_space(pattern)
    for character in DISPUTED + OTHERS:
        if matches(certain, character):
            assert matches(pattern, character), hex(ord(character))
            assert re.search(pattern, character), hex(ord(character))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_characters_that_nobody_disputes_match_as_before(pattern: str) -> None:
    certain = with_certain_white_space(pattern)
    for character in OTHERS:
        assert matches(certain, character) == matches(pattern, character), hex(ord(character))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_ecma_262s_white_space_matches_as_before(pattern: str) -> None:
    exact = with_ecma_white_space(pattern)
    if r"(?" not in pattern:  # there, jsonschema-rs has Unicode's white space
        assert r"\s" not in exact.replace(r"\\s", "").replace(r"\s\S", "")
        for character in DISPUTED + OTHERS:
            assert matches(exact, character) == matches(pattern, character), hex(ord(character))


def test_any_character_stays_any_character() -> None:
    assert with_certain_white_space(r"^[\s\S]*$") == r"^[\s\S]*$"


def test_a_pattern_without_white_space_is_unchanged() -> None:
    assert with_certain_white_space(r"^[a-z]+\\s$") == r"^[a-z]+\\s$"


def matches(pattern: str, text: str) -> bool:
    return jsonschema_rs.is_valid({"pattern": pattern}, text)
