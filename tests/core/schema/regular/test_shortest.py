from __future__ import annotations

import pytest

from toolgate_core.schema.regular.languages import all_of, long, matching, shortest_of
from toolgate_core.schema.regular.syntax import Part, Unsupported

STEPS = 1_000


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (all_of(matching(r"^(?=.*\d)[a-z\d]+$"), long(3)), "aa0"),
        (matching("long|it|a word"), "it"),
        (matching("^[!-+]$"), "!"),
        (all_of(long(2), matching("^[^a]*$")), "bb"),
        (long(0), ""),
        (all_of(matching("^a$"), matching("^b$")), None),
        (long(STEPS), None),
    ],
)
def test_the_shortest_string_of_a_set(part: Part | None, text: str | None) -> None:
    assert shortest_of(part, STEPS) == text


def test_a_pattern_that_is_not_regular_is_refused() -> None:
    with pytest.raises(Unsupported):
        shortest_of(matching(r"(a)\1"), STEPS)
