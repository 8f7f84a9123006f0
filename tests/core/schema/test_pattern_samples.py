"""A sample of a pattern is a string that it matches."""

from __future__ import annotations

import pytest

from toolgate_core.pattern_match import matches
from toolgate_core.schema.pattern_samples import sample_of


@pytest.mark.parametrize(
    "pattern",
    [
        "^abc$",
        r"^(\w\d)+$",
        "^[^a-z]{2,3}$",
        r"^(?:x-|data-)[a-z_]*\.?$",
        "a5b|^$",
        r"^\d{4}-\d{2}\s$",
        "^[A-Z][a-zA-Z0-9]*$",
        r"^\[\]\\$",
        "^.+?$",
        "(?<name>a)b",
        r"^(?!x)[a-z]+$",
        "",
    ],
)
def test_samples_match(pattern: str) -> None:
    found = {sample_of(pattern, choice) for choice in range(6)}
    assert None not in found
    assert all(matches(pattern, text) for text in found if text is not None)


def test_choices_differ() -> None:
    assert {sample_of("^[abc]$", choice) for choice in range(3)} == {"a", "b", "c"}
    assert {sample_of("^(?:left|right)$", choice) for choice in range(2)} == {"left", "right"}


@pytest.mark.parametrize("pattern", ["^(?=b)a$", "[", "(", r"(a)\1b{100}", "^[^\\s\\S]$"])
def test_no_sample_is_better_than_a_wrong_one(pattern: str) -> None:
    assert sample_of(pattern) is None
