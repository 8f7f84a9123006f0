from __future__ import annotations

import pytest

from toolgate_core.schema.regular.languages import Language, Long, Matching
from toolgate_core.schema.regular.shortest import shortest_of
from toolgate_core.schema.regular.syntax import Unsupported

STEPS = 1_000


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (Matching(r"^(?=.*\d)[a-z\d]+$") & Long(3), "aa0"),
        (Matching("long|it|a word"), "it"),
        (Matching("^[!-+]$"), "!"),
        (Long(2) & ~Matching("a"), "bb"),
        (Long(), ""),
        (Matching("^a$") & Matching("^b$"), None),
        (Long(STEPS), None),
    ],
)
def test_the_shortest_string_of_a_language(language: Language, text: str | None) -> None:
    assert shortest_of(language, STEPS) == text


def test_a_pattern_that_is_not_regular_is_refused() -> None:
    with pytest.raises(Unsupported):
        shortest_of(Matching(r"(a)\1"), STEPS)
