"""vLLM's manager of structured outputs."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import tools
from tests.models import tiny_model


@pytest.fixture(autouse=True, scope="module")
def _own_sequences() -> Iterator[None]:
    """The grammars and sequences of an engine process are those of one file of tests."""
    from toolgate_backend.adapters import engine_sequences

    engine_sequences._sequences = None
    yield
    engine_sequences._sequences = None


@pytest.fixture(scope="module")
def model_config() -> Any:
    from vllm.config import ModelConfig

    return ModelConfig(model=str(tiny_model()), dtype="float32")


@pytest.fixture
def slow_masks(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, float], None]:
    """Stop the clocks of masks. The function makes each mask of an automaton take some seconds."""
    now = 0.0
    for clock in ("thread_time", "perf_counter"):
        monkeypatch.setattr(f"time.{clock}", lambda: now)

    def slow(machine: Any, seconds: float) -> None:
        row = machine.next_row()

        def next_row() -> Any:
            nonlocal now
            now += seconds
            return row

        machine.row, machine.next_row = None, next_row

    return slow


@pytest.fixture
def manager(model_config: Any) -> Any:
    """vLLM's manager as far as the hooks need it, without a back end."""
    import torch
    from vllm.v1.structured_output import StructuredOutputManager

    manager = StructuredOutputManager.__new__(StructuredOutputManager)
    manager.vllm_config = SimpleNamespace(
        model_config=model_config,
        scheduler_config=SimpleNamespace(max_num_seqs=4, async_scheduling=False),
        num_speculative_tokens=0,
        speculative_config=None,
    )
    manager.backend = manager._grammar_bitmask = None
    manager._full_mask = torch.tensor(-1, dtype=torch.int32)
    manager._use_async_grammar_compilation = True
    manager.fill_bitmask_parallel_threshold = 128
    manager.enable_in_reasoning = True  # masks hold in the whole response
    return manager


@pytest.fixture
def ours(automaton: Callable[..., Any], model_data: Any) -> Callable[..., Any]:
    """A grammar of a sequence, of requests with these tools."""
    from toolgate_backend.adapters import structured_output
    from toolgate_backend.enforcement.jump_forward import JumpForward

    failed = structured_output.FailedSequence(model_data)
    everything = model_data.rows.row(np.full_like(model_data.in_grammars, -1))
    shared = structured_output.EngineContext(failed, JumpForward(lambda text: ()), everything)

    def make(offered: Any = (tools.WEATHER,), **spec: Any) -> Any:
        return structured_output.EnforcementGrammar(automaton([*offered], **spec), shared)

    return make
