"""The tiny model's real tokenizer and both engines, without a server."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.models import tiny_model
from tests.support.dialects.model import measure
from tests.support.grammars.registry_bench import Bench, Clock, WorkerRpc, registry_over
from tests.support.vocabularies import vocabulary_of
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.turn_graph import TurnGraphs
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.engines.choice import fallback_choices
from toolgate_backend.grammars.engines.engine import CompiledGrammar, Engine
from toolgate_backend.grammars.engines.llguidance_engine import (
    LLGuidanceEngine,
    make_tokenizer,
    tokenizer_text,
)
from toolgate_backend.grammars.engines.xgrammar_engine import XGrammarEngine
from toolgate_backend.grammars.least_tokens import LeastTokens
from toolgate_backend.grammars.registry import GrammarRegistry
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.schema.canonical import TEXT, canonical_json
from toolgate_core.tools import Tool, content_format, parse_tools


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return vocabulary_of(str(tiny_model()))


@pytest.fixture(scope="session")
def engines(vocabulary: Vocabulary) -> dict[str, Engine]:
    end = vocabulary.tokenizer.eos_token_id
    text = tokenizer_text(vocabulary.tokenizer)
    return {
        "xgrammar": XGrammarEngine(vocabulary.info, cache_bytes=2**26),
        "llguidance": LLGuidanceEngine(make_tokenizer(text, size=vocabulary.size, end=end)),
    }


@pytest.fixture(scope="session")
def model_data(vocabulary: Vocabulary) -> ModelData:
    return ModelData(vocabulary)


@pytest.fixture(scope="session")
def turns(model_data: ModelData) -> TurnGraphs:
    return TurnGraphs(model_data)


@pytest.fixture(scope="session")
def compile_tool(
    vocabulary: Vocabulary, engines: dict[str, Engine], model_data: ModelData
) -> Callable[[Tool], MeasuredGrammar]:
    def compile_(tool: Tool) -> MeasuredGrammar:
        compiled: CompiledGrammar
        schema = tool.parameters
        if TEXT in tool.parameters:
            llguidance = engines["llguidance"]
            assert isinstance(llguidance, LLGuidanceEngine)
            compiled = llguidance.compile_text(tool.parameters[TEXT])
        else:
            choice = next(fallback_choices(tool.parameters, lambda _: True))
            schema = choice.schema
            compiled = engines[choice.engine].compile(vocabulary.form, tool.name, schema)
        least = LeastTokens(vocabulary.form, model_data.token_index)
        return measure(compiled, tool.name, tool.parameters, least, canonical_json(schema))

    return compile_


@pytest.fixture(scope="session")
def automaton(
    turns: TurnGraphs, compile_tool: Callable[[Tool], MeasuredGrammar]
) -> Callable[..., Automaton]:
    """automaton(tools, schema, choice=…, …), with all their grammars compiled."""

    def make(
        tools: list[dict[str, Any]], schema: dict[str, Any] | Tool | None = None, **spec: Any
    ) -> Automaton:
        grammars = [compile_tool(tool) for tool in parse_tools(tools)]
        form = content_format(schema, param="") if isinstance(schema, dict) else schema
        content = compile_tool(form) if form is not None else None
        return Automaton(turns, Spec(**spec), grammars, content)

    return make


@pytest.fixture
def ranks(vocabulary: Vocabulary) -> WorkerRpc:
    return WorkerRpc(vocabulary)


@pytest.fixture
def bench(vocabulary: Vocabulary) -> Bench:
    return Bench(vocabulary)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(ranks: WorkerRpc, bench: Bench, clock: Clock) -> GrammarRegistry:
    return registry_over(ranks, bench, clock)
