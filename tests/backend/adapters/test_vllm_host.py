"""The behaviour of vLLM's private names that the adapters use (adapters/private_names.py)."""

from __future__ import annotations

import asyncio
import queue
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.v1.engine import EngineCoreRequestType
from vllm.v1.engine.core import EngineCore, EngineCoreProc, EngineShutdownState
from vllm.v1.engine.core_client import AsyncMPClient
from vllm.v1.serial_utils import run_method
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.worker.worker_base import WorkerBase

from tests.models import tiny_model
from toolgate_backend import plugin
from toolgate_backend.adapters import vllm_host
from toolgate_backend.errors import IncompatibleServer

vllm_host.register()


def config(*, processors: Any = None, drafts: Any = None, v2: bool = False) -> Any:
    return SimpleNamespace(
        model_config=SimpleNamespace(logits_processors=processors),
        speculative_config=drafts,
        use_v2_model_runner=v2,
    )


OURS = ["toolgate_backend.adapters.logits_processor:EnforcementLogitsProcessor"]


def test_the_adapter_is_detected_from_the_server_config() -> None:
    assert vllm_host.detect_adapter(config(processors=OURS), "auto") == "logits_processor"
    assert vllm_host.detect_adapter(config(), "auto") == "structured_output"
    assert vllm_host.detect_adapter(config(processors=["a:B"]), "auto") == "structured_output"
    assert vllm_host.detect_adapter(config(drafts={}, v2=True), "auto") == "structured_output"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (config(processors=OURS, drafts={}), "auto"),
        (config(processors=OURS, v2=True), "auto"),
        (config(), "logits_processor"),
        (config(processors=OURS), "structured_output"),
    ],
)
def test_a_server_that_cannot_apply_masks_is_rejected(given: Any, wanted: str) -> None:
    with pytest.raises(IncompatibleServer, match="TOOLGATE_ADAPTER"):
        vllm_host.detect_adapter(given, wanted)


@pytest.mark.parametrize("name", ["_create_grammar", "validate_tokens"])
def test_a_server_with_missing_hooks_is_rejected(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(StructuredOutputManager, name, lambda self, request, other, one: None)
    with pytest.raises(IncompatibleServer, match=rf"{name} .* TOOLGATE_ADAPTER=logits_processor"):
        vllm_host.detect_adapter(config(), "auto")
    assert vllm_host.detect_adapter(config(processors=OURS), "auto") == "logits_processor"


def test_vllm_without_the_hooks_is_not_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(EngineCore, "toolgate_report")
    monkeypatch.delattr(StructuredOutputManager, "_create_grammar")
    vllm_host.register()
    assert not hasattr(EngineCore, "toolgate_report")
    assert not hasattr(StructuredOutputManager, "_create_grammar")


async def test_an_rpc_returns_a_result_from_every_engine() -> None:
    client: Any = AsyncMPClient.__new__(AsyncMPClient)
    client.core_engines = [b"0", b"1"]

    async def call(method: str, *args: Any, engine: bytes) -> Any:
        await asyncio.sleep(0)
        return method, args, engine

    client._call_utility_async = call
    ask = vllm_host.make_rpc(SimpleNamespace(engine_core=client), "structured_output")
    assert await ask("toolgate_report") == [("toolgate_report", (), each) for each in (b"0", b"1")]
    assert await ask("toolgate_release", args=("holder", ["key"])) == [
        ("toolgate_release", ("holder", ["key"]), each) for each in (b"0", b"1")
    ]


@pytest.mark.parametrize(("model_type", "kind"), [("qwen3", "random"), ("kimi_k2", "kimi_k2")])
def test_call_id_kind_follows_the_model_type(model_type: str, kind: str) -> None:
    held = SimpleNamespace(model_type=model_type)
    model_config = SimpleNamespace(hf_overrides=None, hf_config=held, hf_text_config=held)
    assert vllm_host.call_ids(model_config) == kind


@pytest.fixture(scope="module")
def manager() -> Any:
    """vLLM's manager as far as the hook needs it, and the same for the engine's methods."""
    from vllm.config import ModelConfig

    manager = StructuredOutputManager.__new__(StructuredOutputManager)
    model_config = ModelConfig(model=str(tiny_model()), dtype="float32")
    manager.vllm_config = SimpleNamespace(model_config=model_config)
    return manager


def test_the_engine_runs_toolgate_methods_by_name(manager: Any) -> None:
    """The engine handles the call as a utility request from its client."""
    engine: Any = EngineCoreProc.__new__(EngineCoreProc)
    engine.vllm_config = manager.vllm_config
    engine.shutdown_state = EngineShutdownState.RUNNING
    engine.output_queue = queue.Queue()
    call = (0, 7, "toolgate_report", ())
    engine._handle_client_request(EngineCoreRequestType.UTILITY, call)
    client, outputs = engine.output_queue.get_nowait()
    answer = outputs.utility_output
    assert (client, answer.call_id, answer.failure_message) == (0, 7, None)
    assert answer.result.result == {"grammars": 0, "sequences": 0}


def test_workers_run_toolgate_methods_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "toolgate")
    plugin.register()
    monkeypatch.setattr("toolgate_backend.grammars.store._installed", {})
    monkeypatch.setattr("toolgate_backend.grammars.store._sequences", 3)
    worker = WorkerBase.__new__(WorkerBase)
    found = run_method(worker, "toolgate_report", (), {})
    assert found == {"grammars": 0, "sequences": 3}
