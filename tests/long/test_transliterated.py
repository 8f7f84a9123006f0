"""Real schemas in other scripts: no call is invalid, and no walk ends where nothing may follow."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.long.transliterated import ALL_FORMS, schemas, violations
from tests.support.effort import repeats
from tests.support.schemas.scripts import SCRIPTS, transliterated
from tests.support.shared_data import DATA


@pytest.mark.exhaustive
@pytest.mark.skipif(not DATA.exists(), reason="needs the data sets below $TOOLGATE_SHARED")
@pytest.mark.parametrize("form", ALL_FORMS)
def test_calls_with_names_in_other_scripts_are_valid(form: str) -> None:
    counts: Counter[str] = Counter()
    for at, (script, write) in enumerate(SCRIPTS.items()):
        for schema in schemas()[at :: repeats(len(schemas()) // 2, nightly=1)]:
            assert not violations(form, transliterated(schema, write), counts), script
    assert counts["walks: ended"]
