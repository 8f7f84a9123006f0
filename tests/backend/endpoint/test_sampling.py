"""Sampling parameters of a request become vLLM's `SamplingParams`."""

from __future__ import annotations

from typing import Any

import pytest
from vllm.sampling_params import SamplingParams

from tests.support.apis.value_examples import valid
from toolgate_backend.endpoint.sampling import sampling_params
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core import wire
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.api.shared.parameter import Parameter
from toolgate_proxy.api.shared.sampling import SAMPLING


def made(vocabulary: Vocabulary, spec: Spec, **sampling: Any) -> Any:
    return sampling_params(
        wire.Sampling(**sampling), spec, vocabulary, {}, budget=9, stream=True, hooked=False
    )


def test_every_sampling_field_exists_in_vllm() -> None:
    assert wire.Sampling.model_fields.keys() <= {*SamplingParams.__struct_fields__}


@pytest.mark.parametrize("row", [row for row in SAMPLING if row.sampling], ids=lambda row: row.name)
def test_valid_values_are_passed_to_vllm(vocabulary: Vocabulary, row: Parameter) -> None:
    """The bounds of the gateway's parameters are within vLLM's bounds."""
    assert row.type
    assert row.sampling
    for value in valid(row.type):
        parsed = row.type.parse(value, row.name)
        params = sampling_params(
            wire.Sampling(**{row.sampling: parsed}),
            None,
            vocabulary,
            {},
            budget=2**31 - 1,
            stream=True,
            hooked=False,
        )
        if isinstance(parsed, bool | int | float):
            assert getattr(params, row.sampling) == parsed


def test_allowed_token_ids_are_passed_for_plain_content(vocabulary: Vocabulary) -> None:
    params = made(vocabulary, Spec("none"), allowed_token_ids=(300, 301))
    assert [*params.allowed_token_ids] == [300, 301]


@pytest.mark.parametrize(
    "spec",
    [
        Spec("auto", keys=("k",)),
        Spec("required", keys=("k",)),
        Spec("none", content="k"),
        Spec("none", reasoning="open"),
        Spec("none", reasoning="must"),
        Spec("none", reasoning="may", reasoning_budget=5),
    ],
    ids=str,
)
def test_allowed_token_ids_are_rejected_with_enforcement(
    vocabulary: Vocabulary, spec: Spec
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        made(vocabulary, spec, allowed_token_ids=(300,))
    assert refused.value.param == "allowed_token_ids"


def test_allowed_token_ids_must_include_a_text_token(vocabulary: Vocabulary) -> None:
    with pytest.raises(InvalidRequest):
        made(vocabulary, Spec("none"), allowed_token_ids=(*vocabulary.marks.end_of_turn,))


def test_repetition_detection_and_logprob_token_ids_are_passed(vocabulary: Vocabulary) -> None:
    found = {"max_pattern_size": 3, "min_count": 4}
    params = made(vocabulary, Spec("none"), repetition_detection=found)
    assert params.repetition_detection.max_pattern_size == 3
    params = made(vocabulary, Spec("none"), logprobs=2, logprob_token_ids=(5,))
    assert params.logprobs is None
