"""Marks that are added tokens without being special, as in the tokenizers of many models."""

from __future__ import annotations

import json

import jsonschema
import pytest

from tests.support.dialects.model import PARAMETERS, DialectModel, walk
from tests.support.dialects.tool_calls import calls_in
from toolgate_core.dialects.mark_texts import special_tokens
from toolgate_core.dialects.registry import DIALECTS

FAMILIES = ("deepseek_v32", "gigachat35", "minimax_m3", "glm47", "mistral_v13", "gemma4")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FAMILIES)
def test_calls_are_valid_with_marks_that_are_not_special(name: str) -> None:
    model = DialectModel(DIALECTS[name], special_tokens(DIALECTS[name]), special=False)
    machine = model.automaton(choice="required")
    ended = 0
    for seed in range(12):
        machine.reset()
        tokens, _, whole = walk(machine, model, seed)
        calls = calls_in(model.segment(tokens, required=True)) if whole else []
        for tool, arguments in calls:
            jsonschema.validate(json.loads(arguments), PARAMETERS[tool])
        ended += whole
    assert ended >= 6
