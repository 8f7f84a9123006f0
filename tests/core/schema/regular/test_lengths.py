"""Bounds on the lengths of matches are never wrong. jsonschema-rs is the judge."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.core.schema.regular.test_languages import IRREGULAR, PATTERNS, matched, patterns
from toolgate_core.schema.regular.languages import Matching


def bounded(pattern: str) -> None:
    least, most = Matching(pattern).lengths
    for text, matches in matched(pattern).items():
        if matches:
            assert least <= len(text), (pattern, text)
            assert most is None or len(text) <= most, (pattern, text)


@pytest.mark.parametrize("pattern", [*PATTERNS, *(each for each in IRREGULAR if each != "(a")])
def test_no_match_of_a_pattern_is_beyond_its_lengths(pattern: str) -> None:
    bounded(pattern)


@settings(max_examples=60, deadline=None, database=None)
@given(patterns)
def test_no_match_of_any_pattern_is_beyond_its_lengths(pattern: str) -> None:
    bounded(pattern)


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("", 0, None),
        ("^$", 0, 0),
        ("abc", 3, None),
        ("^abc", 3, None),
        ("^abc$", 3, 3),
        ("^a{2,5}b?$", 2, 6),
        ("^a{2,}$", 2, None),
        ("^(a|bcd)$", 1, 3),
        ("^a$|^bcd$", 1, 3),
        ("^a$|bcd", 1, None),
        ("^(?:a{3}|b{2}){2}$", 4, 6),
        ("^(?:$|a)", 0, None),
        ("(?:^a){1}b$", 2, 2),
        ("(?:^a)?b$", 1, None),
        ("^(?:a{0})*$", 0, 0),
        ("^(?=abc$)..", 2, None),
        ("^😀{2}$", 2, 2),
        (r"^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2})?$", 10, 16),
        (r"^(a)\1$", 1, None),
        ("a" * 5_000, 5_000, None),
    ],
)
def test_the_lengths_of_a_pattern(pattern: str, least: int, most: int | None) -> None:
    assert Matching(pattern).lengths == (least, most)


def test_repetitions_of_repetitions_take_no_further_steps() -> None:
    nested = "a"
    for _ in range(40):
        nested = f"(?:{nested}){{1000}}"
    assert Matching(f"^{nested}$").lengths == (1000**40, 1000**40)
