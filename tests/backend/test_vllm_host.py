"""What we lean on in vLLM beyond its plug-in interfaces. When one of these fails after an upgrade,
adapters/vllm_host.py says which line of vLLM to look at."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from vllm import SamplingParams
from vllm.v1.engine.core import EngineCore
from vllm.v1.engine.core_client import AsyncMPClient
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

from tests import tools
from tests.models import tiny_model
from toolgate_backend.adapters import vllm_host
from toolgate_backend.adapters.structured_output import EnforcementGrammar
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.errors import AdapterMisfit, GrammarMissing
from toolgate_core import keys
from toolgate_core.plan import parse_tools

vllm_host.register()


def test_vllm_has_not_moved() -> None:
    assert vllm_host.moved() is None, f"vLLM has moved {vllm_host.moved()}"


def test_grammars_have_the_verbs_that_we_speak() -> None:
    abstract = StructuredOutputGrammar.__abstractmethods__
    assert abstract <= set(vars(EnforcementGrammar)), "vLLM asks grammars for new verbs"


def test_every_engine_can_be_asked() -> None:
    assert hasattr(AsyncMPClient, "call_utility_all_async"), "vLLM has moved call_utility_all_async"


def test_a_moved_hook_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(StructuredOutputManager, "_create_grammar")
    assert (vllm_host.moved() or "").endswith("StructuredOutputManager._create_grammar")
    with pytest.raises(AdapterMisfit, match=r"moved .*_create_grammar"):
        vllm_host.adapter_of(config(), "auto")


def config(*, processors: Any = None, drafts: Any = None, v2: bool = False) -> Any:
    return SimpleNamespace(
        model_config=SimpleNamespace(logits_processors=processors),
        speculative_config=drafts,
        use_v2_model_runner=v2,
    )


OURS = ["toolgate_backend.adapters.logits_processor:EnforcementLogitsProcessor"]


def test_the_adapter_is_what_the_servers_flags_make_it() -> None:
    assert vllm_host.adapter_of(config(processors=OURS), "auto") == "logits_processor"
    assert vllm_host.adapter_of(config(), "auto") == "structured_output"
    assert vllm_host.adapter_of(config(processors=["a:B"]), "auto") == "structured_output"
    assert vllm_host.adapter_of(config(drafts={}, v2=True), "auto") == "structured_output"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (config(processors=OURS, drafts={}), "auto"),
        (config(processors=OURS, v2=True), "auto"),
        (config(), "logits_processor"),
        (config(processors=OURS), "structured_output"),
    ],
)
def test_a_server_that_would_drop_the_masks_does_not_start(given: Any, wanted: str) -> None:
    with pytest.raises(AdapterMisfit, match="TOOLGATE_ADAPTER"):
        vllm_host.adapter_of(given, wanted)


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
    return request(SamplingParams(extra_args=held, structured_outputs=vllm_host.hooked_params()))


def test_a_request_of_ours_gets_our_grammar(manager: Any) -> None:
    [tool] = parse_tools([tools.WEATHER])
    key = keys.grammar_key(tool.hash, dialect="qwen3", tokenizer="t", grammar_format="f")
    source = {"name": tool.name, "parameters": keys.canonical_json(tool.parameters), "blob": None}
    engine = SimpleNamespace(vllm_config=manager.vllm_config)
    EngineCore.toolgate_load(engine, "test", {key: json.dumps(source)})
    while not EngineCore.toolgate_verdicts(engine, [key]):
        time.sleep(0.001)
    grammar = manager._create_grammar(enforced(choice="required", keys=(key,)))
    assert isinstance(grammar, EnforcementGrammar)
    assert EngineCore.toolgate_report(engine) == {"grammars": 1, "sequences": 1}
    del grammar
    EngineCore.toolgate_release(engine, "test", [key])
    assert EngineCore.toolgate_report(engine) == {"grammars": 0, "sequences": 0}


def test_a_grammar_that_is_not_there_fails_that_request(manager: Any) -> None:
    with pytest.raises(GrammarMissing):
        manager._create_grammar(enforced(choice="required", keys=("gone",)))


def test_other_requests_are_vllms(manager: Any) -> None:
    """The original is called: it asks for the request's own structured output."""
    with pytest.raises(AssertionError):
        manager._create_grammar(request(SamplingParams()))
