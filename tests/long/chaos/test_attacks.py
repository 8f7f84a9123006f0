"""The soak's attacks and the judgement of their outcomes."""

from __future__ import annotations

from tests.long.chaos.attacks import Attacks


def test_outcomes_that_no_gateway_may_have_are_found() -> None:
    attacks = Attacks((), "key")
    attacks.outcomes.update([("trailers", "cut"), ("hostile schemas", "400")])
    table, wrong = attacks.report()
    assert "| hostile schemas | 400 | 1 |" in table
    assert wrong == []
    attacks.outcomes.update([("trailers", "accepted"), ("hostile schemas", "500")])
    attacks.outcomes["hostile schemas", "no response to deep"] += 1
    assert attacks.report()[1] == [
        "attack by hostile schemas: 500",
        "attack by hostile schemas: no response to deep",
        "attack by trailers: accepted",
    ]
