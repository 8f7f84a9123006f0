"""From wherever random tokens lead, a call can still be ended, in each codec."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from tests import tools
from tests.support.dialects.model import DialectModel
from tests.support.effort import repeats
from toolgate_backend.grammars.completions.json_texts import Scan
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import words_per_row
from toolgate_core.dialects.registry import DIALECTS

CODECS = ("qwen3", "qwen3_coder", "gemma4", "llama4_pythonic", "minimax_m3")
"""A dialect with each codec."""
WALKS, TOKENS, CHECKED_EVERY = repeats(2, nightly=4), 40, 3


@lru_cache
def model(name: str) -> DialectModel:
    return DialectModel(DIALECTS[name])


@pytest.mark.exhaustive
@pytest.mark.parametrize("tool", tools.ALL, ids=lambda tool: tool["function"]["name"])
@pytest.mark.parametrize("name", CODECS)
def test_a_completion_exists_from_every_state_of_a_walk(name: str, tool: dict[str, Any]) -> None:
    found, function = model(name), tool["function"]
    grammar = found.grammar(function["name"], function["parameters"])
    completion = found.data.completion
    for seed in range(WALKS):
        rng = random.Random(seed)
        matcher, scan = grammar.matcher(), completion.call_scan
        for length in range(TOKENS):
            if matcher.finished:
                break
            if length % CHECKED_EVERY == 0:
                path = completion.path(matcher, scan, grammar.hints)
                assert path is not None, f"no way to the end after {length} tokens"
                _assert_ends(matcher, path)
            row = np.empty(words_per_row(found.vocabulary.size), dtype=np.int32)
            matcher.fill(row)
            allowed = masks.unpack(row)
            assert len(allowed), "no token is allowed"
            token = int(rng.choice(allowed))
            assert matcher.accept(token)
            scan = scan.after(found.vocabulary.token_bytes[token])


def _assert_ends(matcher: Any, path: list[int]) -> None:
    assert all(map(matcher.accept, path))
    assert matcher.finished
    matcher.rollback(len(path))


def test_the_scan_knows_where_strings_end() -> None:
    assert Scan().after(b'{"a').in_string
    assert not Scan().after(b'{"a"').in_string
