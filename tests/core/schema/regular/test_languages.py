"""Patterns of complements and intersections match what they should, by the validator's reading."""

from __future__ import annotations

from itertools import product

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from toolgate_core.schema.regular.languages import Language, Long, Matching, Union, texts
from toolgate_core.schema.regular.text import portable

SHORT = ["".join(some) for length in range(5) for some in product("ab-.", repeat=length)]
ODD = [
    "\n",
    "a\n",
    "\na",
    "é",
    "a\r",
    "\u2028",
    "5",
    "_",
    " ",
    "\ufeff",
    "\x85",
    "Z",
    "😀",
    '"',
    "\\",
]

PATTERNS = [
    "",
    "a",
    "^a",
    "a$",
    "^a$",
    "^$",
    "a|^b$",
    "(^a)|(b$)|-",
    "^(a|b)*$",
    "^(?:ab){1,2}$",
    "a{2,}",
    "^.{2,3}$",
    "^[^a-b]+$",
    r"^[\w.-]+$",
    r"\W",
    r"^\S+$",
    r"^\d?[\s\S]$",
    "^(a|(b|$))",
    "b$a",
    "a^",
    "^(?=.*a).*b",
    "^(?!a)[ab]+$",
    "^(?!ab$).*$",
    "(?!a)b",
    "^(?!.*--)[ab-]+$",
    r"^[a\]]$",
    "^[[a]$",
    r"\x61\u0062\.",
    "^(?<name>a)b?$",
    ".*a.*a.*",
    r"^\p{L}$",
    "^(?i)A$",
    r"^(?!\w)[a-]",
    r"^(?=\S)[^a]$",
]
IRREGULAR = [
    "^((?=a)a|b)+$",
    r"(a)\1",
    r"\bword",
    "(?<=a)b",
    "^(/?a+($|/))*$",
    "(a",
]


def agrees(language: Language, expected: dict[str, bool]) -> None:
    pattern = language.pattern
    assert pattern is not None
    check = jsonschema_rs.validator_for({"pattern": pattern})
    for text, matched in expected.items():
        assert check.is_valid(text) == matched, (pattern, text)


def matched(pattern: str) -> dict[str, bool]:
    check = jsonschema_rs.validator_for({"pattern": portable(pattern)})
    return {text: check.is_valid(text) for text in [*SHORT, *ODD]}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_and_its_complement(pattern: str) -> None:
    expected = matched(pattern)
    agrees(Matching(pattern), expected)
    agrees(~Matching(pattern), {text: not each for text, each in expected.items()})


@pytest.mark.parametrize("pattern", IRREGULAR)
def test_patterns_that_are_not_regular_have_no_complement(pattern: str) -> None:
    assert (~Matching(pattern)).pattern is None
    assert (~Matching(pattern)).is_empty is None


_parts = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\w", "-"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda each: f"({'|'.join(each)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}", "*?"])).map(
            lambda each: f"(?:{each[0]}){each[1]}"
        ),
    ),
    max_leaves=5,
)
patterns = st.one_of(
    st.tuples(st.sampled_from(["", "^", "^(?=a)"]), _parts, st.sampled_from(["", "$"])).map(
        "".join
    ),
    st.tuples(_parts, _parts).map(lambda each: f"(^{each[0]}$)|{each[1]}"),
    _parts.map(lambda each: f"^(?!{each}$).*b"),
)


@pytest.mark.exhaustive
@settings(max_examples=60, deadline=None, database=None, suppress_health_check=[*HealthCheck])
@given(patterns, patterns)
def test_combinations_of_patterns(one: str, other: str) -> None:
    first, second = matched(one), matched(other)
    alone = ~Matching(one)
    both, either = Matching(one) & Matching(other), Union((Matching(one), ~Matching(other)))
    assume(None not in (alone.pattern, both.pattern, either.pattern))
    agrees(alone, {text: not each for text, each in first.items()})
    agrees(both, {text: first[text] and second[text] for text in first})
    agrees(either, {text: first[text] or not second[text] for text in first})
    if (Matching(other) & ~Matching(one)).is_empty:
        assert all(first[text] for text, each in second.items() if each)
    if both.is_empty:
        assert not any(first[text] and second[text] for text in first)


def test_lists_and_lengths() -> None:
    some = texts(["a", "ab", "é"]) & Long(2)
    agrees(some, {"ab": True, "a": False, "é": False, "b": False})
    assert (texts(["a"]) & Long(2)).is_empty
    assert (texts(["a", "ab"]) & ~Matching("^ab?$")).is_empty
    assert not (texts(["a", "b"]) & ~Matching("^ab?$")).is_empty
    agrees(~Long(), {"": False, "a": False, "\n": False})


def test_large_automata_are_given_up() -> None:
    assert (~Matching("a.{30}b")).pattern is None
    assert texts(["\ud800"]).pattern is None
