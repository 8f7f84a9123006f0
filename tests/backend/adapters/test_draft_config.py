"""The configuration of drafts of forced text, and what is refused by name."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.config import VllmConfig
from vllm.engine.arg_utils import EngineArgs

from tests.models import tiny_model
from toolgate_backend.adapters import draft_config, probe
from toolgate_backend.adapters.private_names import FORCED_DRAFTS
from toolgate_backend.errors import IncompatibleServer
from toolgate_core.host_probe import find_problems


def test_the_installed_vllm_has_every_private_name() -> None:
    assert [*find_problems(FORCED_DRAFTS)] == []


def test_vllm_takes_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 0.33 on, vLLM drops the schedule on the V1 model runner, the only one without a GPU."""
    drop = "_maybe_disable_dynamic_sd_for_v1"
    monkeypatch.setattr(VllmConfig, drop, lambda config: None, raising=False)
    flag, value = draft_config.flags(8)
    assert flag == "--speculative-config"
    arguments = EngineArgs(
        model=str(tiny_model()),
        dtype="float32",
        enforce_eager=True,
        speculative_config=json.loads(value),
    )
    config = arguments.create_engine_config()
    assert draft_config.is_configured(config)
    assert config.num_speculative_tokens == 8
    config.speculative_config.method = "ngram"
    assert not draft_config.is_configured(config)


def config(**changes: Any) -> Any:
    """A server that may draft."""
    speculative = SimpleNamespace(
        **{"method": draft_config.METHOD, draft_config.SCHEDULE: [(1, 1, 0)]}
    )
    found: dict[str, Any] = {
        "speculative_config": speculative,
        "num_speculative_tokens": 8,
        "use_v2_model_runner": True,
        "scheduler_config": SimpleNamespace(async_scheduling=True),
        "parallel_config": SimpleNamespace(data_parallel_size=1, pipeline_parallel_size=1),
        "model_config": SimpleNamespace(is_hybrid=False),
    }
    return SimpleNamespace(**{**found, **changes})


def test_a_server_that_drafts_as_configured_starts() -> None:
    draft_config.check(config(), 8)
    draft_config.check(config(speculative_config=None), 0)


@pytest.mark.parametrize(
    ("changes", "wanted", "says"),
    [
        ({}, 0, "Set TOOLGATE_FORCED_DRAFTS"),
        ({}, 4, "with this --speculative-config"),
        ({"speculative_config": None}, 8, "with this --speculative-config"),
        ({"use_v2_model_runner": False}, 8, "V1 model runner"),
        ({"scheduler_config": SimpleNamespace(async_scheduling=False)}, 8, "--no-async-sched"),
        (
            {"parallel_config": SimpleNamespace(data_parallel_size=2, pipeline_parallel_size=1)},
            8,
            "data or pipeline parallelism",
        ),
        (
            {"parallel_config": SimpleNamespace(data_parallel_size=1, pipeline_parallel_size=2)},
            8,
            "data or pipeline parallelism",
        ),
        ({"model_config": SimpleNamespace(is_hybrid=True)}, 8, "recurrent layers"),
    ],
)
def test_other_servers_are_refused(changes: dict[str, Any], wanted: int, says: str) -> None:
    with pytest.raises(IncompatibleServer, match=says):
        draft_config.check(config(**changes), wanted)


def test_a_missing_private_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("vllm.v1.worker.gpu.model_runner.init_speculator")
    with pytest.raises(IncompatibleServer, match="init_speculator is missing"):
        probe.check_forced_drafts()
