from __future__ import annotations

import json

import pytest

from toolgate_core.surrogates import half_pair_in


@pytest.mark.parametrize(
    ("text", "pointer", "code", "offset"),
    [
        (r'"cut \ud83d emoji"', "", r"\ud83d", 4),
        (r'{"a": ["x", {"b/c": "\udc00"}]}', "/a/1/b~1c", r"\udc00", 0),
        (r'{"a": {"k\udc00": 1}}', r"/a/k\udc00", r"\udc00", 1),
    ],
)
def test_the_first_half_of_a_pair_is_found(text: str, pointer: str, code: str, offset: int) -> None:
    found = half_pair_in(json.loads(text))
    assert found is not None
    assert (found.pointer, found.code, found.offset) == (pointer, code, offset)
    assert code in found.problem
    found.problem.encode()


def test_whole_pairs_are_fine() -> None:
    assert half_pair_in(json.loads(r'{"\ud83d\ude00": ["😀", 1, null]}')) is None
