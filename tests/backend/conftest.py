"""The tiny model's real tokenizer and both engines, without a server."""

import pytest

from tests.models import tiny_model
from tests.support.dialects.model import measure
from tests.support.grammars.registry_bench import Bench, Clock, WorkerRpc, registry_over
from tests.support.vocabularies import vocabulary_of
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.turn_graph import TurnGraphs
from toolgate_backend.grammars.engines.choice import fallback_choices
from toolgate_backend.grammars.engines.engine import CompiledGrammar
from toolgate_backend.grammars.engines.llguidance_engine import (
    LLGuidanceEngine,
    make_tokenizer,
    tokenizer_text,
)
from toolgate_backend.grammars.engines.xgrammar_engine import XGrammarEngine
from toolgate_backend.grammars.least_tokens import LeastTokens
from toolgate_core.schema.canonical import TEXT, canonical_json
from toolgate_core.tools import content_format, parse_tools


@pytest.fixture(scope="session")
def vocabulary():
    return vocabulary_of(str(tiny_model()))


@pytest.fixture(scope="session")
def engines(vocabulary):
    end = vocabulary.tokenizer.eos_token_id
    text = tokenizer_text(vocabulary.tokenizer)
    return {
        "xgrammar": XGrammarEngine(vocabulary.info, cache_bytes=2**26),
        "llguidance": LLGuidanceEngine(make_tokenizer(text, size=vocabulary.size, end=end)),
    }


@pytest.fixture(scope="session")
def model_data(vocabulary):
    return ModelData(vocabulary)


@pytest.fixture(scope="session")
def turns(model_data):
    return TurnGraphs(model_data)


@pytest.fixture(scope="session")
def compile_tool(vocabulary, engines, model_data):
    def compile_(tool):
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
def automaton(turns, compile_tool):
    """automaton(tools, schema, choice=…, …), with all their grammars compiled."""

    def make(tools, schema=None, **spec):
        grammars = [compile_tool(tool) for tool in parse_tools(tools)]
        form = content_format(schema, param="") if isinstance(schema, dict) else schema
        content = compile_tool(form) if form is not None else None
        return Automaton(turns, Spec(**spec), grammars, content)

    return make


@pytest.fixture
def ranks(vocabulary):
    return WorkerRpc(vocabulary)


@pytest.fixture
def bench(vocabulary):
    return Bench(vocabulary)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def registry(ranks, bench, clock):
    return registry_over(ranks, bench, clock)
