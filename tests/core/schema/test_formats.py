"""The patterns of formats, and the formats that validation knows. jsonschema-rs is the judge."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import examples
from toolgate_core.schema.formats import BUILT_IN, CHECKED, LENGTHS, PATTERNS

SOME = examples(50, nightly=150)


def validator(schema: Any) -> Any:
    return jsonschema_rs.validator_for(schema, validate_formats=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_format_patterns_accept_valid_strings_only(name: str) -> None:
    check = validator({"format": name})

    @SOME
    @given(st.from_regex(PATTERNS[name][0], fullmatch=False, alphabet=st.characters(codec="ascii")))
    def holds(text: str) -> None:
        text = text.strip("\n")  # Python's $ lets one pass
        fits = len(text) <= LENGTHS.get(name, len(text))
        if fits and all(re.search(pattern, text) for pattern in PATTERNS[name]):
            assert check.is_valid(text), text

    holds()


@pytest.mark.parametrize("name", sorted(CHECKED | BUILT_IN | PATTERNS.keys()))
def test_validation_supports_every_known_format(name: str) -> None:
    assert not validator({"format": name}).is_valid("[\\{ %")
