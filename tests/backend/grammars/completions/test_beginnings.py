"""The members that can begin under a mask."""

from __future__ import annotations

import numpy as np

from toolgate_backend.grammars.completions.hints import Beginnings
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.units import TokenIndex

TOKENS = [b'"', b'"a', b'"b', b'"ab', b"x", *(b"%d" % n for n in range(40)), b'"c']
INDEX = TokenIndex(TOKENS, frozenset())
MEMBERS = [(name, f'"{name}": '.encode()) for name in ("c", "ab", "b", "ab")]


def allowed(*tokens: bytes) -> list[str]:
    row = masks.pack(masks.token_ids(TOKENS.index(each) for each in tokens), len(TOKENS))
    return [name for name, _ in Beginnings(MEMBERS, INDEX).allowed(row)]


def test_members_are_those_with_an_allowed_first_token_in_their_order() -> None:
    assert allowed(b'"') == ["c", "ab", "b", "ab"]
    assert allowed(b'"c', b'"a') == ["c", "ab", "ab"]
    assert allowed(b'"ab') == ["ab", "ab"]
    assert allowed(b"x", b"0") == []


def test_there_may_be_no_members() -> None:
    row = np.full(masks.words_per_row(len(TOKENS)), -1, dtype=np.int32)
    assert [*Beginnings([], INDEX).allowed(row)] == []
