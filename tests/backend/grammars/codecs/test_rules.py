"""Rules of a grammar in the making."""

from __future__ import annotations

import pytest

from toolgate_backend.errors import GrammarRefused
from toolgate_backend.grammars.codecs.rules import MAX_LENGTH, Rules


def test_a_grammar_that_repeats_its_definitions_too_often_is_refused() -> None:
    rules = Rules()
    repeated = "d" * (MAX_LENGTH // 50)
    for at in range(49):
        rules.add("json", f"%json {at} {repeated}")
    with pytest.raises(GrammarRefused, match="characters"):
        rules.add("json", f"%json {repeated}")
    assert sum(map(len, rules.lines)) <= MAX_LENGTH


def test_the_same_rule_counts_once() -> None:
    rules = Rules()
    names = {rules.add("json", "d" * (MAX_LENGTH // 2)) for _ in range(10)}
    assert len(names) == len(rules.lines) == 1
