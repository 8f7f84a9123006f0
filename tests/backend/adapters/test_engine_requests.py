"""Requests that reach vLLM's manager with the hooks of the adapter structured_output."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from vllm import SamplingParams
from vllm.v1.engine.core import EngineCore
from vllm.v1.structured_output.request import StructuredOutputRequest

from tests import tools
from toolgate_backend.adapters import engine_sequences, vllm_host
from toolgate_backend.adapters.engine_sequences import NO_GRAMMAR
from toolgate_backend.adapters.structured_output import EnforcementGrammar
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.errors import GrammarNotCreated
from toolgate_backend.grammars.worker_rpc import source_text
from toolgate_backend.tokens.masks import unpack
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core import grammar_key
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource

vllm_host.register()


@pytest.fixture
def loaded(manager: Any) -> Iterator[str]:
    """A grammar in the engine's process."""
    [tool] = parse_tools([tools.WEATHER])
    key = grammar_key.grammar_key(tool.hash, dialect="qwen3", tokenizer="t", grammar_format="f")
    source = GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
    engine: Any = SimpleNamespace(vllm_config=manager.vllm_config)
    EngineCore.toolgate_load(engine, "test", {key: source_text(source)})
    while not EngineCore.toolgate_verdicts(engine, [key]):
        time.sleep(0.001)
    yield key
    EngineCore.toolgate_release(engine, "test", [key])


def request(params: SamplingParams) -> Any:
    return SimpleNamespace(
        request_id="r",
        prompt_token_ids=[1, 2],
        sampling_params=params,
        structured_output_request=None,
    )


def enforced(**spec: Any) -> Any:
    held = Spec(**spec).to_extra_args()
    return request(
        SamplingParams(extra_args=held, structured_outputs=vllm_host.structured_outputs_params())
    )


def test_enforced_requests_get_an_enforcement_grammar(manager: Any, loaded: str) -> None:
    engine: Any = SimpleNamespace(vllm_config=manager.vllm_config)
    grammar = manager._create_grammar(enforced(choice="required", keys=(loaded,)))
    assert isinstance(grammar, EnforcementGrammar)
    assert EngineCore.toolgate_report(engine) == {"grammars": 1, "sequences": 1}
    del grammar
    EngineCore.toolgate_release(engine, "test", [loaded])
    assert EngineCore.toolgate_report(engine) == {"grammars": 0, "sequences": 0}


def test_a_missing_grammar_has_an_error_that_the_endpoint_recognises(manager: Any) -> None:
    with pytest.raises(GrammarNotCreated, match=f"^{NO_GRAMMAR}: Grammar gone is not loaded"):
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


@pytest.mark.parametrize("in_pool", [True, False])
def test_enforced_requests_need_no_back_end_of_vllm(
    manager: Any, loaded: str, vocabulary: Vocabulary, in_pool: bool
) -> None:
    """Neither for the grammar nor for the bitmask, which vLLM allocates by its back end."""
    manager._use_async_grammar_compilation = in_pool
    asked = enforced(choice="required", keys=(loaded,))
    held = StructuredOutputRequest.from_sampling_params(asked.sampling_params)
    asked.structured_output_request = held
    with ThreadPoolExecutor(1) as manager.executor:
        manager.grammar_init(asked)
    assert isinstance(held.grammar, EnforcementGrammar)
    assert manager.backend is None
    bitmask = manager.grammar_bitmask({"r": asked}, ["r"], {})
    assert [set(unpack(row).tolist()) for row in bitmask] == [
        {vocabulary.marks.tokens["<tool_call>"]}
    ]


def test_the_grammar_of_a_known_turn_is_created_at_once(
    manager: Any, loaded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a thread of the pool. What may take longer, or fails, is left to the pool."""
    known = {"choice": "required", "keys": (loaded,)}

    def is_at_once(**spec: Any) -> bool:
        asked = enforced(**spec)
        held = StructuredOutputRequest.from_sampling_params(asked.sampling_params)
        asked.structured_output_request = held
        manager.grammar_init(asked)
        return isinstance(held._grammar, EnforcementGrammar)

    with ThreadPoolExecutor(1) as manager.executor:
        manager._create_grammar(enforced(**known))
        assert is_at_once(**known)
        assert not is_at_once(choice="auto", keys=(loaded,))
        assert not is_at_once(**known, accepted=(1,))
        assert not is_at_once(choice="required", keys=("gone",))
        with monkeypatch.context() as patch:
            patch.setattr(engine_sequences, "FEW_TOOLS", 0)
            assert not is_at_once(**known)
        drafts = SimpleNamespace(forced_drafts=8)
        monkeypatch.setattr(engine_sequences, "settings", lambda: drafts)
        assert not is_at_once(**known)


def test_other_requests_get_a_back_end_of_vllm(manager: Any) -> None:
    manager.tokenizer = None
    manager.backend_name = None  # from 0.33 on
    asked = request(SamplingParams(structured_outputs=vllm_host.structured_outputs_params()))
    asked.sampling_params.structured_outputs._backend = "none that exists"
    held = StructuredOutputRequest.from_sampling_params(asked.sampling_params)
    asked.structured_output_request = held
    with pytest.raises(ValueError, match="none that exists"):
        manager.grammar_init(asked)
