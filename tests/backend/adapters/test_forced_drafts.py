"""Drafts of forced text one step ahead: what the engine schedules. tests/backend/scheduler drives
vLLM's own scheduler with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from vllm.v1.engine.core import EngineCore

from toolgate_backend.adapters import draft_config, forced_drafts
from toolgate_backend.adapters.structured_output import EnforcementGrammar

SCHEDULED = {draft_config.SCHEDULE: [(1, 1, 0)], "method": draft_config.METHOD}


class Counting(EnforcementGrammar):
    """Allows consecutive numbers, and forces five of them."""

    def __init__(self, last: int) -> None:
        self.last = last

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        expected = range(self.last + 1, self.last + 1 + len(tokens))
        wrong = [
            at for at, pair in enumerate(zip(tokens, expected, strict=True)) if pair[0] != pair[1]
        ]
        return tokens[: wrong[0]] if wrong else tokens

    def drafts_after(self, in_flight: list[int], limit: int) -> list[int]:
        begin = self.last + len(in_flight) + 2
        return list(range(begin, begin + min(limit, 5)))


def requests(**grammars: Any) -> dict[str, Any]:
    return {
        name: SimpleNamespace(
            structured_output_request=SimpleNamespace(grammar=grammar), spec_token_ids=[]
        )
        for name, grammar in grammars.items()
    }


def test_drafts_that_the_last_tokens_rule_out_become_padding() -> None:
    held = requests(a=Counting(10), b=Counting(20), c=Counting(30), d=Counting(40))
    scheduled = {"a": [11, 12, 13], "b": [21, 7, 23], "c": [9, 32]}
    forced_drafts.revise(held, [*held], scheduled)
    assert scheduled == {"a": [11, 12, 13], "b": [21, -1, -1], "c": [-1, -1]}


def test_the_next_drafts_follow_the_valid_ones_and_one_more_token() -> None:
    held = requests(a=Counting(10), b=Counting(20), free=object())
    forced_drafts.propose(held, [*held], {"a": [11, 12, -1]}, limit=4)
    assert held["a"].spec_token_ids == [14, 15, 16, 17]
    assert held["b"].spec_token_ids == [22, 23, 24, 25]
    assert held["free"].spec_token_ids == []


@pytest.mark.parametrize("method", [draft_config.METHOD, "eagle"])
def test_the_engine_asks_workers_without_a_drafter_for_no_drafts(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(EngineCore, "step_with_batch_queue", lambda self: "stepped")
    forced_drafts.register()
    engine: Any = EngineCore.__new__(EngineCore)
    engine.check_for_draft_tokens = True
    speculative = SimpleNamespace(**{**SCHEDULED, "method": method})
    engine.vllm_config = SimpleNamespace(speculative_config=speculative)
    assert engine.step_with_batch_queue() == "stepped"
    assert engine.check_for_draft_tokens == (method == "eagle")
