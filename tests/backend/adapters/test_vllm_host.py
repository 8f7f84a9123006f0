"""The behaviour of vLLM's private names that the adapters use (adapters/private_names.py)."""

from __future__ import annotations

import asyncio
import queue
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm import SamplingParams
from vllm.v1.engine import EngineCoreRequestType
from vllm.v1.engine.core import EngineCore, EngineCoreProc, EngineShutdownState
from vllm.v1.engine.core_client import AsyncMPClient
from vllm.v1.serial_utils import run_method
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.worker.worker_base import WorkerBase

from tests import tools
from tests.models import tiny_model
from toolgate_backend import plugin
from toolgate_backend.adapters import vllm_host
from toolgate_backend.adapters.structured_output import EnforcementGrammar
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.errors import GrammarNotLoaded, IncompatibleServer
from toolgate_backend.grammars.worker_rpc import source_text
from toolgate_core import grammar_key
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource

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


def request(params: SamplingParams) -> Any:
    return SimpleNamespace(request_id="r", sampling_params=params, structured_output_request=None)


def enforced(**spec: Any) -> Any:
    held = Spec(**spec).to_extra_args()
    return request(
        SamplingParams(extra_args=held, structured_outputs=vllm_host.structured_outputs_params())
    )


def test_enforced_requests_get_an_enforcement_grammar(manager: Any) -> None:
    [tool] = parse_tools([tools.WEATHER])
    key = grammar_key.grammar_key(tool.hash, dialect="qwen3", tokenizer="t", grammar_format="f")
    source = GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
    engine = SimpleNamespace(vllm_config=manager.vllm_config)
    EngineCore.toolgate_load(engine, "test", {key: source_text(source)})
    while not EngineCore.toolgate_verdicts(engine, [key]):
        time.sleep(0.001)
    grammar = manager._create_grammar(enforced(choice="required", keys=(key,)))
    assert isinstance(grammar, EnforcementGrammar)
    assert EngineCore.toolgate_report(engine) == {"grammars": 1, "sequences": 1}
    del grammar
    EngineCore.toolgate_release(engine, "test", [key])
    assert EngineCore.toolgate_report(engine) == {"grammars": 0, "sequences": 0}


def test_a_missing_grammar_raises_grammar_not_loaded(manager: Any) -> None:
    with pytest.raises(GrammarNotLoaded):
        manager._create_grammar(enforced(choice="required", keys=("gone",)))


def test_vllm_compiles_the_grammars_of_other_requests(manager: Any) -> None:
    built: list[tuple[Any, ...]] = []

    def compile_grammar(*given: Any, **others: Any) -> str:
        built.append(given)
        return "vLLM's own"

    manager.backend = SimpleNamespace(compile_grammar=compile_grammar)
    asked = request(SamplingParams())
    asked.structured_output_request = SimpleNamespace(structured_output_key=("json", "{}"))
    assert manager._create_grammar(asked) == "vLLM's own"
    assert [given[:2] for given in built] == [("json", "{}")]


def drafted(manager: Any, grammar: Any, drafts: list[int], **speculative: Any) -> Any:
    """What vLLM schedules of these drafts."""
    manager.vllm_config.speculative_config = SimpleNamespace(method="ngram", **speculative)
    manager.vllm_config.scheduler_config = SimpleNamespace(async_scheduling=False)
    manager.vllm_config.num_speculative_tokens = 4
    manager.enable_in_reasoning = True  # masks hold in the whole answer
    held = SimpleNamespace(grammar=grammar, reasoning_ended=True)
    asked = SimpleNamespace(use_structured_output=True, structured_output_request=held)
    return manager.validate_tokens(asked, drafts)


def test_forced_text_is_drafted(manager: Any) -> None:
    """vLLM replaces rejected drafts with -1."""
    grammar: Any = EnforcementGrammar.__new__(EnforcementGrammar)
    grammar.drafts = lambda proposed, limit: [*proposed, limit]
    assert drafted(manager, grammar, [5, 6, -1, -1]) == [5, 6, 4]


def test_drafts_for_other_grammars_are_only_validated(manager: Any) -> None:
    grammar = SimpleNamespace(validate_tokens=lambda tokens: tokens[:1])
    assert drafted(manager, grammar, [5, 6, -1]) == [5]


class Filled(EnforcementGrammar):
    """Records how vLLM's manager requests its masks."""

    def __init__(self) -> None:
        self.together: list[int] = []
        self.alone: list[int] = []

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        self.alone.append(batch_index)

    def is_terminated(self) -> bool:
        return False


@pytest.mark.parametrize(("count", "drafts"), [(3, {}), (200, {}), (3, {"0": [5]})])
def test_the_masks_of_a_step_are_requested_together_unless_it_has_drafts(
    manager: Any, monkeypatch: pytest.MonkeyPatch, count: int, drafts: dict[str, list[int]]
) -> None:
    """vLLM requests more than 128 masks from its threads, which wait for each other in Python."""
    grammars = [Filled() for _ in range(count)]
    for each in grammars:
        each.accept_tokens = lambda request_id, tokens: True  # type: ignore[method-assign]
        each.rollback = lambda num_tokens: None  # type: ignore[method-assign]
    requests = {
        str(at): SimpleNamespace(
            structured_output_request=SimpleNamespace(grammar=each, reasoning_ended=True)
        )
        for at, each in enumerate(grammars)
    }

    def fill_together(bitmask: torch.Tensor, given: list[tuple[int, Filled]]) -> None:
        for row, each in given:
            each.together.append(row)

    sequences = SimpleNamespace(fill_together=fill_together)
    monkeypatch.setattr(vllm_host, "_engine_sequences", lambda config: sequences)
    monkeypatch.setattr(manager.vllm_config, "num_speculative_tokens", 1 if drafts else 0, False)
    manager.vllm_config.model_config.is_diffusion = False
    manager.enable_in_reasoning = True
    manager._grammar_bitmask = torch.zeros(2 * count, 4, dtype=torch.int32)
    manager.fill_bitmask_parallel_threshold = 128
    manager.executor_for_fillmask = None  # an error if it is used
    manager.grammar_bitmask(requests, list(requests), drafts)
    assert [each.together for each in grammars] == [[] if drafts else [at] for at in range(count)]
    expected = [[0, 1], [2], [3]] if drafts else [[at] for at in range(count)]
    assert [each.alone for each in grammars] == expected


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
