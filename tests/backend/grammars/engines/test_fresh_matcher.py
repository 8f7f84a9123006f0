"""A grammar whose lexer has exceeded a limit is compiled again, without a pause of the engine."""

from __future__ import annotations

import threading
import time

import llguidance
import pytest

from tests.backend.grammars.graph.models import model
from toolgate_backend.errors import BackendError
from toolgate_backend.grammars.engines import llguidance_matcher
from toolgate_backend.grammars.engines.llguidance_matcher import FreshMatcher


def make() -> llguidance.LLMatcher:
    tokenizer = model("qwen3").compiler._llguidance._tokenizer
    return llguidance.LLMatcher(tokenizer, 'start: "a"', log_level=0)


def test_a_small_grammar_is_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llguidance_matcher, "PAUSE_SECONDS", 60)
    made: list[llguidance.LLMatcher] = []

    def count() -> llguidance.LLMatcher:
        made.append(make())
        return made[-1]

    fresh = FreshMatcher(count)
    fresh.renew()
    assert len(made) == 2
    assert fresh.copy().compute_ff_bytes() == b"a"


def test_a_large_grammar_is_compiled_while_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llguidance_matcher, "PAUSE_SECONDS", 0)
    compiled = threading.Event()
    compiled.set()
    times = 0

    def slowly() -> llguidance.LLMatcher:
        nonlocal times
        times += 1
        assert compiled.wait(60)
        return make()

    fresh = FreshMatcher(slowly)
    compiled.clear()
    fresh.renew()
    fresh.renew()  # by another copy of the same lexer
    with pytest.raises(BackendError, match="compiled again"):
        fresh.copy()
    compiled.set()
    for _ in range(600):
        try:
            copy = fresh.copy()
            break
        except BackendError:
            time.sleep(0.05)
    assert copy.compute_ff_bytes() == b"a"
    assert times == 2
