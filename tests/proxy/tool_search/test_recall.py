"""How often the search finds the right tool among those of all questions of BFCL."""

from __future__ import annotations

import pytest

from tests.support.shared_data import BFCL, DATA, records
from toolgate_proxy.tool_search.catalogue import Catalogue


@pytest.mark.skipif(not (DATA / BFCL).exists(), reason="BFCL's questions are not here")
def test_right_tools_are_among_the_first() -> None:
    cases = list(records(BFCL))
    functions = {
        tool["function"]["name"]: tool["function"] for case in cases for tool in case["tools"]
    }
    catalogue = Catalogue(list(functions.values()))
    found = {5: 0.0, 10: 0.0}
    asked = 0
    for case in cases:
        right = {name for call in case["ground_truth"] or () for name in call} & functions.keys()
        if not right:
            continue
        question = " ".join(each["content"] for each in case["messages"] if each["role"] == "user")
        ranked = catalogue.ranked(question, 10)
        asked += 1
        for most in found:
            found[most] += len(right.intersection(ranked[:most])) / len(right)
    assert asked > 800
    assert found[5] / asked > 0.86
    assert found[10] / asked > 0.91
