"""The names of kept answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.servers.fake_backend import INFO
from toolgate_core import wire
from toolgate_proxy.chat.answers import name_of

PROMPT = wire.ChatPrompt(messages=({"role": "user", "content": "hi"},))
LOOK = wire.Candidate(name="look", key="a")


def enforcement(**fields: Any) -> wire.Enforcement:
    return wire.Enforcement(**{"choice": "auto", "candidates": (LOOK,), "id_seed": "x"} | fields)


def message(**fields: Any) -> wire.GenerateRequest:
    given = {"request_id": "a", "model": "tiny", "prompt": PROMPT, "enforcement": enforcement()}
    return wire.GenerateRequest(**given | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"request_id": "b"},
        {"stream": False},
        {"priority": 3},
        {"enforcement": enforcement(id_seed="y")},
    ],
    ids=str,
)
def test_requests_with_the_same_answer_have_one_name(fields: Any) -> None:
    assert name_of(message(**fields), INFO) == name_of(message(), INFO)


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "large"},
        {"prompt": wire.ChatPrompt(messages=({"role": "user", "content": "ho"},))},
        {"sampling": wire.Sampling(temperature=0.5)},
        {"enforcement": enforcement(choice="required")},
        {"enforcement": enforcement(candidates=(wire.Candidate(name="look", key="b"),))},
        {"enforcement": enforcement(content="c")},
        {"enforcement": None},
        {"accepted": (1, 2)},
        {"cache_salt": "salt"},
        {"return_prompt_ids": True},
    ],
    ids=str,
)
def test_requests_that_differ_have_other_names(fields: Any) -> None:
    assert name_of(message(**fields), INFO) != name_of(message(), INFO)


@pytest.mark.parametrize(
    "field", ["model", "vllm_version", "adapter", "tokenizer", "grammar_format"]
)
def test_answers_of_other_backends_have_other_names(field: str) -> None:
    assert name_of(message(), INFO.model_copy(update={field: "x"})) != name_of(message(), INFO)


def test_seed_of_the_request_decides_about_the_seed_of_ids() -> None:
    seeded = wire.Sampling(seed=7)
    names = {
        name_of(message(sampling=seeded, enforcement=enforcement(id_seed=seed)), INFO)
        for seed in ("seed 7, 0", "seed 7, 1")
    }
    assert len(names) == 2
