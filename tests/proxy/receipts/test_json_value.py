"""The canonical form of JSON values: one for all spellings of a value, and for no other value."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate_proxy.receipts.json_value import (
    DuplicateMember,
    NotJson,
    canonical,
    canonical_number,
    read,
)

NUMBERS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)


@given(NUMBERS, NUMBERS)
def test_numbers_have_one_text_exactly_if_they_are_equal(first: str, second: str) -> None:
    equal = canonical_number(first) == canonical_number(second)
    assert equal == (Decimal(first) == Decimal(second))
    assert Decimal(canonical_number(first)) == Decimal(first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1e400", "1e500"),
        ("1e-400", "0"),
        ("9007199254740993", "9007199254740992"),
        ("0.1", "0.1000000000000000055"),
        ("1e99999999999999999999", "1e99999999999999999998"),
        (f"1{'0' * 5_000}1", f"1{'0' * 5_000}2"),
    ],
)
def test_numbers_beyond_doubles_differ(first: str, second: str) -> None:
    assert canonical(read(first)) != canonical(read(second))
    assert canonical(read(f"[{first}]")) == f"[{canonical_number(first)}]"


@given(VALUES)
def test_the_form_does_not_depend_on_the_spelling(value: Any) -> None:
    spellings = [json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)]
    first, second = (canonical(read(text)) for text in spellings)
    assert first == second
    assert json.loads(first) == value


def test_a_string_is_no_number() -> None:
    assert canonical(read('"1"')) != canonical(read("1"))
    assert canonical(read("true")) != canonical(read("1"))


def test_deep_values_have_a_form_and_what_can_not_be_read_is_named() -> None:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    assert canonical(deep) == "[" * 5_001 + "]" * 5_001
    for text in ("[" * 100_000, "NaN", "{", "01"):
        with pytest.raises(NotJson):
            read(text)


@pytest.mark.parametrize("text", ['{"b": 1, "a": 1, "a": 2}', '{"b": 1, "a": 2, "\\u0061": 2}'])
def test_duplicate_members_are_refused_where_names_must_be_unique(text: str) -> None:
    assert read(text) == {"b": 1, "a": 2}
    with pytest.raises(DuplicateMember, match="has the member 'a' more than once"):
        read(text, unique=True)
