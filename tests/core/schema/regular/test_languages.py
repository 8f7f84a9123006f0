"""Patterns without look-around match what they should, by the validator's reading."""

from __future__ import annotations

from itertools import product

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from toolgate_core.schema.regular.languages import (
    all_of,
    is_empty,
    long,
    matching,
    plain_pattern,
    plain_patterns,
)
from toolgate_core.schema.regular.syntax import Other, Part
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


def other_than(pattern: str) -> Part | None:
    part = matching(pattern)
    return None if part is None else Other(part)


def agrees(part: Part | None, expected: dict[str, bool]) -> None:
    pattern = plain_pattern(part)
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
    agrees(matching(pattern), expected)
    agrees(other_than(pattern), {text: not each for text, each in expected.items()})


@pytest.mark.parametrize("pattern", IRREGULAR)
def test_patterns_that_are_not_regular_have_no_answer(pattern: str) -> None:
    assert matching(pattern) is None
    assert plain_patterns(pattern) is None
    assert is_empty(all_of(matching(pattern), long(1))) is None


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
    alone, both = other_than(one), all_of(matching(one), matching(other))
    assume(None not in (plain_pattern(alone), plain_pattern(both)))
    agrees(alone, {text: not each for text, each in first.items()})
    agrees(both, {text: first[text] and second[text] for text in first})
    if is_empty(all_of(matching(other), alone)):
        assert all(first[text] for text, each in second.items() if each)
    if is_empty(both):
        assert not any(first[text] and second[text] for text in first)


def test_lengths() -> None:
    agrees(all_of(matching("^ab?$"), long(2)), {"ab": True, "a": False, "b": False})
    assert is_empty(all_of(matching("^ab?$"), long(3)))
    assert not is_empty(all_of(matching("^ab?$"), long(0, 1)))


def test_large_automata_are_given_up() -> None:
    assert plain_pattern(other_than("a.{30}b")) is None


def test_parts_are_written_one_by_one_where_the_whole_is_too_large() -> None:
    label = "[a-z](?:[a-z-]{0,61}[a-z])?"
    patterns = plain_patterns(rf"^(?=.{{1,253}}$){label}(?:\.{label})*$")
    assert patterns is not None
    assert len(patterns) == 2
    for text, expected in {"a": True, "a.b-c": True, "a.": False, "a" * 254: False}.items():
        found = [jsonschema_rs.is_valid({"pattern": each}, text) for each in patterns]
        assert all(found) == expected, text
