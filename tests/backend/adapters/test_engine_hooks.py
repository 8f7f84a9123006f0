"""Steps of vLLM's manager and scheduler with the hooks of the adapter structured_output."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import GrammarOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar
from vllm.v1.structured_output.request import StructuredOutputRequest
from vllm.v1.structured_output.utils import apply_grammar_bitmask

from tests import tools
from toolgate_backend.adapters import vllm_host
from toolgate_backend.adapters.structured_output import EnforcementGrammar, FailedSequence, Shared
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.jump_forward import JumpForward
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.tokens.masks import unpack
from toolgate_backend.tokens.vocabulary import Vocabulary

vllm_host.register()

Make = Callable[..., EnforcementGrammar]


@pytest.fixture
def make(automaton: Callable[..., Automaton], model_data: ModelData) -> Make:
    shared = Shared(FailedSequence(model_data), JumpForward(lambda text: ()))
    return lambda **spec: EnforcementGrammar(automaton([tools.WEATHER], **spec), shared)


def scheduler(manager: Any, grammars: dict[str, Any], kind: Any = Scheduler) -> Any:
    """vLLM's scheduler, in which these requests run."""
    made = kind.__new__(kind)
    made.vllm_config = manager.vllm_config
    made.structured_output_manager = manager
    made.requests = {name: running(name, grammar) for name, grammar in grammars.items()}
    return made


def running(name: str, grammar: Any) -> Any:
    structured = None
    if grammar is not None:
        structured = StructuredOutputRequest(vllm_host.structured_outputs_params(), grammar, True)
    return SimpleNamespace(
        request_id=name,
        structured_output_request=structured,
        use_structured_output=structured is not None,
        is_prefill_chunk=False,
    )


def step(scheduler: Any, drafts: dict[str, list[int]] | None = None) -> dict[str, Any]:
    """The masks of a step with all requests."""
    scheduled = SimpleNamespace(
        has_structured_output_requests=True,
        num_scheduled_tokens=dict.fromkeys(scheduler.requests, 1),
        scheduled_spec_decode_tokens=drafts or {},
    )
    found = scheduler.get_grammar_bitmask(scheduled)
    if found is None:
        return {}
    names, rows = found.structured_output_request_ids, iter(found.grammar_bitmask)
    positions = {name: 1 + len((drafts or {}).get(name, ())) for name in names}
    masks = {
        name: [set(unpack(next(rows)).tolist()) for _ in range(count)]
        for name, count in positions.items()
    }
    assert next(rows, None) is None
    return {name: each[0] if len(each) == 1 else each for name, each in masks.items()}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that vLLM's manager requests."""
    rows: list[int] = []
    fill = EnforcementGrammar.fill_bitmask

    def recorded(self: EnforcementGrammar, bitmask: torch.Tensor, batch_index: int) -> None:
        rows.append(batch_index)
        fill(self, bitmask, batch_index)

    monkeypatch.setattr(EnforcementGrammar, "fill_bitmask", recorded)
    return rows


class Native(StructuredOutputGrammar):  # type: ignore[misc]
    """A grammar of vLLM's own, which allows token 5."""

    def __init__(self) -> None:
        self.accepted: list[list[int]] = []

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        bitmask[batch_index] = 0
        bitmask[batch_index, 0] = 1 << 5

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        self.accepted.append(tokens)
        return True

    def is_terminated(self) -> bool:
        return False

    validate_tokens = rollback = reset = accept_tokens


@pytest.mark.parametrize("kind", [Scheduler, AsyncScheduler])
def test_a_step_of_enforced_requests_is_one_loop(
    manager: Any, make: Make, vocabulary: Vocabulary, asked: list[int], kind: Any
) -> None:
    call = vocabulary.marks.tokens["<tool_call>"]
    made = scheduler(manager, {"a": make(choice="required"), "b": make(choice="none")}, kind)
    made.requests["free"] = running("free", None)
    made.requests["prefilled"] = running("prefilled", make(choice="none"))
    made.requests["prefilled"].is_prefill_chunk = True
    found = step(made)
    assert found.keys() == {"a", "b"}
    assert found["a"] == {call}
    assert call not in found["b"]
    assert not asked
    grammar = made.requests["a"].structured_output_request.grammar
    assert grammar.accept_tokens("a", [call])
    assert call not in step(made)["a"]


def test_requests_that_are_scheduled_and_then_aborted_have_no_mask(
    manager: Any, make: Make
) -> None:
    made = scheduler(manager, {"a": make(choice="none"), "b": make(choice="none")})
    names = [*made.requests]
    del made.requests["a"]
    scheduled = SimpleNamespace(
        has_structured_output_requests=True,
        num_scheduled_tokens=dict.fromkeys(names, 1),
        scheduled_spec_decode_tokens={},
    )
    assert made.get_grammar_bitmask(scheduled).structured_output_request_ids == ["b"]
    made.requests.clear()
    assert made.get_grammar_bitmask(scheduled) is None


def test_a_step_without_structured_requests_has_no_masks(manager: Any) -> None:
    assert step(scheduler(manager, {"free": None})) == {}
    scheduled = SimpleNamespace(has_structured_output_requests=False)
    assert scheduler(manager, {}).get_grammar_bitmask(scheduled) is None


def test_a_step_with_another_grammar_is_left_to_vllm(
    manager: Any, make: Make, vocabulary: Vocabulary, asked: list[int]
) -> None:
    made = scheduler(manager, {"a": make(choice="required"), "b": Native()})
    call = {vocabulary.marks.tokens["<tool_call>"]}
    assert step(made) == {"a": call, "b": {5}}
    assert asked == [0]
    del made.requests["b"]
    assert step(made) == {"a": call}
    assert asked == [0]


def test_drafts_are_left_to_vllm(
    manager: Any, make: Make, vocabulary: Vocabulary, asked: list[int]
) -> None:
    """One mask for each position, with the grammar advanced by the draft."""
    manager.vllm_config.num_speculative_tokens = 1
    manager.vllm_config.model_config.is_diffusion = False
    call = vocabulary.marks.tokens["<tool_call>"]
    made = scheduler(manager, {"a": make(choice="required")})
    first, second = step(made, {"a": [call]})["a"]
    assert (first, call in second) == ({call}, False)
    assert asked == [0, 1]
    grammar = made.requests["a"].structured_output_request.grammar
    assert grammar.validate_tokens([call]) == [call]  # it is where it was


def test_sampled_tokens_reach_their_grammar(
    manager: Any, make: Make, vocabulary: Vocabulary
) -> None:
    manager.reasoner_cls = None
    call, text = vocabulary.marks.tokens["<tool_call>"], vocabulary.encode("a")
    native = Native()
    made = scheduler(manager, {"a": make(choice="required"), "b": native, "free": None})
    requests = made.requests
    assert manager.accept_tokens(requests["free"], list(text))
    assert manager.accept_tokens(requests["b"], list(text))
    assert native.accepted == [list(text)]
    assert not manager.accept_tokens(requests["a"], list(text))
    assert manager.accept_tokens(requests["a"], [call])
    assert not manager.accept_tokens(requests["a"], [call])


def test_the_runner_accepts_rows_in_any_order() -> None:
    batch = SimpleNamespace(req_ids=["a", "free", "b", "c"])
    rows = {"a": [1], "b": [2], "c": [3, 4]}
    bitmask = np.zeros((3, 1), np.int32)
    for row, name in enumerate(("c", "a", "b")):
        bitmask[row] = sum(1 << token for token in rows[name])
    logits = torch.zeros(4, 6)
    scheduled = SimpleNamespace(scheduled_spec_decode_tokens={})
    apply_grammar_bitmask(scheduled, GrammarOutput(["c", "a", "b"], bitmask), batch, logits)
    left = [torch.nonzero(row > float("-inf")).flatten().tolist() for row in logits]
    assert left == [rows["a"], [0, 1, 2, 3, 4, 5], rows["b"], rows["c"]]


# --- drafts ---


def drafted(manager: Any, grammar: Any, drafts: list[int]) -> Any:
    """What vLLM schedules of these drafts."""
    manager.vllm_config.speculative_config = SimpleNamespace(method="ngram")
    manager.vllm_config.num_speculative_tokens = 4
    return manager.validate_tokens(running("a", grammar), drafts)


def test_forced_text_is_drafted(manager: Any) -> None:
    """vLLM replaces rejected drafts with -1."""
    grammar: Any = EnforcementGrammar.__new__(EnforcementGrammar)
    grammar.drafts = lambda proposed, limit: [*proposed, limit]
    assert drafted(manager, grammar, [5, 6, -1, -1]) == [5, 6, 4]


def test_drafts_for_other_grammars_are_only_validated(manager: Any) -> None:
    grammar = SimpleNamespace(validate_tokens=lambda tokens: tokens[:1])
    assert drafted(manager, grammar, [5, 6, -1]) == [5]
