"""Patterns without look-around match together what the pattern with it matches."""

from __future__ import annotations

from itertools import product

import pytest

from toolgate_core.schema.patterns import for_engines, is_maskable, matches, objection_to, portable
from toolgate_core.schema.preparation.prepare import prepare

TEXTS = ["".join(some) for length in range(5) for some in product("ab-.", repeat=length)]
TEXTS += [
    "\n",
    "a\n",
    "\na",
    "a\n..",
    "..\na",
    "\r--",
    "é",
    "\u2028",
    " ",
    " a",
    "a ",
    "ab5c",
    "😀",
]


@pytest.mark.parametrize(
    "pattern",
    [
        "^(?=.*a).*b",
        "^(?=.{2,3}$)[ab]+$",
        r"^(?=\S)(?=[\s\S]*\.)[^-]+$",
        "^(?!a)[ab]+$",
        "^(?!ab)",
        "^(?!ab$).*$",
        "^(?!a|b-|$)",
        "^(?!ab|-$)[ab-]+$",
        "^(?!(?:a|b-))",
        r"^(?!\s*$).+",
        "^(?![a-b]*$)[ab-]+$",
        "^(?!.*a)",
        "^(?![ab]*[b-])[ab.-]+$",
        "^(?!.*--)[ab-]+$",
        r"^(?!\.)(?!.*\.\.)[\s\S]*$",
        r"^(?!\p{L})[\s\S]$",
        "^(?!-)[ab-]+(?<!-)$",
        "^[ab-]*(?<=[ab])$",
        "^(?<!a)$",
        "^(?!$)",
    ],
)
def test_masks_enforce_look_around_at_the_ends(pattern: str) -> None:
    made = for_engines(portable(pattern))
    assert all(map(is_maskable, made))
    for text in TEXTS:
        found = all(matches(each, text) for each in made)
        assert found == matches(portable(pattern), text), (made, text)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?!a)b",
        "^a(?!b)",
        "^(?!.*abc)",
        "^(?!.*ab)",
        "^(?!a+b)",
        "^(?![a-b]*--)",
        "^(?!)a",
        "^(?!(?=a)b)",
        "^((?=a)a|b)+$",
        "^a(?<!ab)$",
        "^(?=a)|b",
        r"^(?=a)\bab",
    ],
)
def test_other_look_around_is_left_to_validation(pattern: str) -> None:
    assert objection_to(pattern)
    residual = prepare({"properties": {"a": {"type": "string", "pattern": pattern}}}).residual
    assert [each.pointer for each in residual] == ["/properties/a/pattern"]
