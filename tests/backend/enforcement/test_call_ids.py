"""Ids in the text of calls: unique in a response, and the same each time."""

from __future__ import annotations

import pytest

from tests.support.dialects.model import DialectModel
from toolgate_backend.endpoint.sampling import sampling_params
from toolgate_backend.enforcement.spec import CallIdentifiers, Spec, from_extra_args
from toolgate_core import wire
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS

WITH_IDS = ("kimi_k2", "mistral_v3", "mistral_v11", "cohere_r7b", "solar_open")


def ids(dialect: str, spec: Spec, count: int = 3) -> list[str]:
    identifiers = CallIdentifiers(DIALECTS[dialect])
    return [identifiers.call_id(spec, index) for index in range(count)]


@pytest.mark.parametrize("dialect", WITH_IDS)
def test_choices_of_a_response_have_different_ids(dialect: str) -> None:
    """vLLM gives each choice the seed of the first one plus its number, and the same spec."""
    sent = Spec("auto", earlier_calls=2, id_seed="a", first_seed=7).to_extra_args()
    choices = [from_extra_args(sent, seed) for seed in (7, 8, 9)]
    found = [name for spec in choices if spec for name in ids(dialect, spec)]
    assert len({*found}) == 9
    first = Spec("auto", earlier_calls=2, id_seed="a")
    assert found[:3] == ids(dialect, first)


@pytest.mark.parametrize("dialect", WITH_IDS)
def test_continued_choice_has_the_ids_of_its_number(dialect: str) -> None:
    sent = Spec("auto", id_seed="a", first_seed=7).to_extra_args()
    second = from_extra_args(sent, 8)
    assert second is not None
    continued = Spec("auto", id_seed="a", choice_number=1, accepted=(1, 2))
    assert ids(dialect, second) == ids(dialect, continued)


def test_conversation_counts_on_and_a_turn_begins_anew() -> None:
    spec = Spec("auto", earlier_calls=4)
    assert ids("kimi_k2", spec) == ["4", "5", "6"]
    assert ids("cohere_r7b", spec) == ["0", "1", "2"]


@pytest.mark.parametrize(("dialect", "seeded"), [("kimi_k2", True), ("qwen3", False)])
def test_choices_have_seeds_if_their_ids_depend_on_them(dialect: str, seeded: bool) -> None:
    vocabulary = DialectModel(DIALECTS[dialect], mark_texts(DIALECTS[dialect])).vocabulary
    made = sampling_params(
        wire.Sampling(n=2), Spec("auto"), vocabulary, {}, budget=9, stream=True, hooked=False
    )
    spec = from_extra_args(made.extra_args)
    assert spec is not None
    assert (made.seed is not None) is seeded
    assert spec.first_seed == made.seed
