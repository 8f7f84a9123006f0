"""The hooks in vLLM's V2 model runner, as far as they run without a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.v1.worker.gpu import model_runner
from vllm.v1.worker.gpu.model_runner import GPUModelRunner

from toolgate_backend.adapters import draft_config, draft_worker

CPU = torch.device("cpu")


def config(method: str = draft_config.METHOD) -> Any:
    return SimpleNamespace(
        speculative_config=SimpleNamespace(
            **{"method": method, draft_config.SCHEDULE: [(1, 1, 0)]}
        ),
        scheduler_config=SimpleNamespace(max_num_seqs=4),
        num_speculative_tokens=3,
    )


def states() -> Any:
    return SimpleNamespace(
        draft_tokens=torch.full((4, 3), -1, dtype=torch.int64),
        req_id_to_index={"a": 2, "b": 0, "c": 1},
    )


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What vLLM's own methods saw, once the hooks are there."""
    seen: list[Any] = []

    def prepare_inputs(self: Any, *given: Any) -> str:
        seen.append(self.req_states.draft_tokens.tolist())
        return f"prepared {len(given)}"

    monkeypatch.setattr(GPUModelRunner, "prepare_inputs", prepare_inputs)
    monkeypatch.setattr(model_runner, "init_speculator", lambda *given: "vLLM's own")
    draft_worker.register()
    return seen


def prepared(method: str, drafts: dict[str, list[int]]) -> Any:
    runner: Any = GPUModelRunner.__new__(GPUModelRunner)
    runner.vllm_config, runner.req_states, runner.device = config(method), states(), CPU
    scheduled = SimpleNamespace(scheduled_spec_decode_tokens=drafts)
    return runner.prepare_inputs(scheduled, None, None, 0)


def test_the_scheduler_s_drafts_are_there_before_the_inputs_are_prepared(hooked: list[Any]) -> None:
    assert prepared(draft_config.METHOD, {"a": [7, 8, 9], "b": [5]}) == "prepared 4"
    assert hooked == [[[5, 0, 0], [-1, -1, -1], [7, 8, 9], [-1, -1, -1]]]


@pytest.mark.parametrize(("method", "drafts"), [("ngram", {"a": [7]}), (draft_config.METHOD, {})])
def test_other_steps_are_left_alone(
    hooked: list[Any], method: str, drafts: dict[str, list[int]]
) -> None:
    assert prepared(method, drafts) == "prepared 4"
    assert hooked == [[[-1, -1, -1]] * 4]


def test_no_drafter_runs(hooked: list[Any]) -> None:
    drafter = model_runner.init_speculator(config(), CPU, states())
    drafts = drafter.propose(SimpleNamespace(num_reqs=2), None, num_speculative_tokens=0)
    assert drafts.shape == (2, 3)
    assert drafter.draft_logits is None
    assert model_runner.init_speculator(config("eagle"), CPU, states()) == "vLLM's own"
