"""Sampling parameters of a request."""

from __future__ import annotations

import pytest

from tests.support.apis.admitted_requests import TOOL, admitted
from toolgate_core import wire
from toolgate_core.errors import InvalidRequest


def test_openai_sampling_parameters_reach_the_sampling() -> None:
    sampling = admitted(
        temperature=0.5,
        top_p=0.9,
        top_k=40.0,
        min_p=0.1,
        presence_penalty=-1,
        frequency_penalty=1,
        repetition_penalty=1.1,
        seed=-7,
        n=3,
        max_tokens=5,
        logit_bias={"12": -100, "7": 2.5},
        logprobs=True,
        top_logprobs=4,
        stop_token_ids=[3],
        ignore_eos=True,
        min_tokens=2,
    ).sampling
    assert sampling.model_dump(exclude_defaults=True) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "presence_penalty": -1.0,
        "frequency_penalty": 1.0,
        "repetition_penalty": 1.1,
        "seed": -7,
        "n": 3,
        "max_tokens": 5,
        "logit_bias": {12: -100.0, 7: 2.5},
        "logprobs": 4,
        "stop_token_ids": (3,),
        "ignore_eos": True,
        "min_tokens": 2,
    }


def test_vllm_sampling_parameters_reach_the_request() -> None:
    request = admitted(
        logprobs=True,
        logprob_token_ids=[5, 6],
        prompt_logprobs=2,
        allowed_token_ids=[7],
        repetition_detection={"max_pattern_size": 4, "min_count": 3},
        return_prompt_text=True,
        return_tokens_as_token_ids=True,
        truncate_prompt_tokens=100,
        truncation_side="left",
        add_special_tokens=True,
        request_id="mine",
    )
    assert request.sampling.model_dump(exclude_defaults=True) == {
        "logprobs": 0,
        "logprob_token_ids": (5, 6),
        "prompt_logprobs": 2,
        "allowed_token_ids": (7,),
        "repetition_detection": {"max_pattern_size": 4, "min_count": 3},
    }
    assert request.return_prompt_text
    assert request.tokens_as_ids
    assert request.tokenizing == wire.Tokenizing(
        add_special_tokens=True, truncate_prompt_tokens=100, truncation_side="left"
    )
    assert request.answer_id == "chatcmpl-mine"
    assert request.request_id != request.answer_id


def test_logprobs_alone_requests_no_alternatives() -> None:
    assert admitted(logprobs=True).sampling.logprobs == 0
    assert admitted(logprobs=False, top_logprobs=0).sampling.logprobs is None


def test_prompt_logprobs_are_rejected_in_a_stream() -> None:
    with pytest.raises(InvalidRequest):
        admitted(stream=True, prompt_logprobs=1)


def test_parameters_that_end_the_content_can_be_combined_with_tools() -> None:
    sampling = admitted(
        tools=[TOOL], ignore_eos=True, min_tokens=2, stop_token_ids=[1], bad_words=["no", " way"]
    ).sampling
    assert (sampling.ignore_eos, sampling.min_tokens) == (True, 2)
    assert (sampling.stop_token_ids, sampling.bad_words) == ((1,), ("no", " way"))
