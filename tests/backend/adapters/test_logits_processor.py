"""The logits processor in the calls of both model runners: rows come, go, are preempted, fail."""

import time
from types import SimpleNamespace

import pytest
import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor.interface import BatchUpdate

from tests import tools
from tests.support.slots import context, slot_states, write_tokens
from toolgate_backend.adapters.logits_processor import EnforcementLogitsProcessor
from toolgate_backend.adapters.structured_output import MAX_SLOW
from toolgate_backend.enforcement.spec import EXTRA_ARG, Spec
from toolgate_backend.grammars import store
from toolgate_backend.grammars.worker_rpc import source_text
from toolgate_core import grammar_key
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource

ROWS = 8


class V1:
    """The calls of vLLM's V1 model runner. Requests share their lists of output."""

    def __init__(self, config):
        self.processor = EnforcementLogitsProcessor(config, torch.device("cpu"), False)
        self.apply = self.processor.apply

    def update(self, added=(), removed=()):
        added = [(row, given, None, output) for row, given, output in added]
        self.processor.update_state(BatchUpdate(ROWS, removed=removed, added=added, moved=[]))


class V2:
    """Those of the V2 model runner, with slots that are rows here, and prompts of several lengths.
    Nothing tells of the end of a request."""

    def __init__(self, config):
        self.states, self.outputs = slot_states(ROWS, 256), {}
        self.processor = EnforcementLogitsProcessor(config, self.states)

    def update(self, added=(), removed=()):
        for row, given, output in added:
            self.outputs[row] = output
            self.states.prompt_len.np[row] = 3 * row
            assert self.processor.add_request(row, given) == bool(given.extra_args)
        for row in removed:
            del self.outputs[row]

    def apply(self, logits):
        for row, output in self.outputs.items():
            write_tokens(self.states, row, [*[7] * 3 * row, *output])
        self.processor.apply_staged_writes()
        return self.processor.apply(logits, context([(row, [0]) for row in range(len(logits))]))


@pytest.fixture(scope="module", params=[V1, V2])
def made(request, model_config):
    scheduler = SimpleNamespace(max_num_seqs=ROWS)
    config = {"model_config": model_config, "scheduler_config": scheduler}
    return request.param(SimpleNamespace(**config, num_speculative_tokens=0))


@pytest.fixture
def processor(made):
    """Without rows."""
    made.processor._sequences.clear()
    return made


@pytest.fixture
def key(processor):
    """A loaded grammar of get_weather."""
    [tool] = parse_tools([tools.WEATHER])
    key = grammar_key.grammar_key(tool.hash, dialect="qwen3", tokenizer="t", grammar_format="f")
    source = GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
    store.installed_store().load("test", {key: source_text(source)})
    while not store.installed_store().verdicts([key]):
        time.sleep(0.001)
    return key


def params(**spec):
    return SamplingParams(extra_args=Spec(**spec).to_extra_args())


def allowed(processor, vocabulary):
    """What each of four rows may sample."""
    logits = processor.apply(torch.zeros(4, vocabulary.size))
    return [set(torch.nonzero(row > float("-inf")).flatten().tolist()) for row in logits]


def test_only_enforced_requests_are_masked(processor, vocabulary, key):
    processor.update([(0, SamplingParams(), []), (1, params(choice="required", keys=(key,)), [])])
    free, forced, *_ = allowed(processor, vocabulary)
    assert len(free) == vocabulary.size
    assert forced == {vocabulary.marks.tokens["<tool_call>"]}


def test_a_resumed_sequence_is_rebuilt_after_preemption(processor, vocabulary, key):
    text = vocabulary.encode('\n{"name": "get_weather", "arguments": {"city": "a')
    tokens = [vocabulary.marks.tokens["<tool_call>"], *text]
    wanted = {"choice": "required", "keys": (key,)}
    processor.update([(0, params(**wanted), tokens)])
    processor.update([(1, params(**wanted, accepted=tuple(tokens[:4])), output := tokens[4:])])
    heir = params(**wanted, accepted=tuple(tokens[:4]))
    processor.update([(2, heir, [])])
    rows = allowed(processor, vocabulary)
    assert rows[0] == rows[1]
    assert tokens[4] in rows[2]
    processor.update(removed=[2])
    processor.update([(3, heir, output)])
    assert allowed(processor, vocabulary)[3] == rows[0]


@pytest.mark.parametrize(
    "trouble", ["no grammar", "masked token", "fewer tokens", "matcher breaks", "wrong beginning"]
)
def test_a_failing_sequence_does_not_affect_others(processor, vocabulary, key, trouble):
    """The failing sequence gets the failure token; no exception reaches the engine."""
    output = [vocabulary.marks.tokens["<tool_call>"]] if trouble == "fewer tokens" else []
    accepted = (5, 6) if trouble == "wrong beginning" else ()
    keys_ = ("gone",) if trouble == "no grammar" else (key,)
    processor.update(
        [
            (0, params(choice="required", keys=keys_, accepted=accepted), output),
            (1, params(choice="none"), []),
        ]
    )
    if trouble in ("masked token", "fewer tokens"):
        allowed(processor, vocabulary)
        output[:] = [] if output else vocabulary.encode("a")[:1]
    if trouble == "matcher breaks":
        output.append(vocabulary.marks.tokens["<tool_call>"])
        processor.processor._sequences[0].grammar.automaton.accept = lambda token: 1 / 0
    broken, neighbour, *_ = allowed(processor, vocabulary)
    assert broken == {vocabulary.marks.failure}
    assert len(neighbour) > 1000


def test_slow_masks_end_their_sequence(processor, vocabulary, slow_masks):
    processor.update([(0, params(choice="none"), []), (1, params(choice="none"), [])])
    slow_masks(processor.processor._sequences[0].grammar.automaton, 60.0)
    for _ in range(MAX_SLOW - 1):
        slow_one, neighbour, *_ = allowed(processor, vocabulary)
        assert slow_one == neighbour
    slow_one, neighbour, *_ = allowed(processor, vocabulary)
    assert slow_one == {vocabulary.marks.failure}
    assert len(neighbour) > 1000


WITHOUT_SEED = {"choice": "auto", "keys": [], "stop_ids": [], "accepted": [], "bad_words": []}


@pytest.mark.parametrize("sent", ["x", 3, [], {"choice": "auto"}, {"keys": 1}, WITHOUT_SEED])
def test_client_set_extra_args_are_rejected_without_affecting_others(processor, vocabulary, sent):
    given = SamplingParams(extra_args={EXTRA_ARG: sent}, seed=1)
    with pytest.raises(ValueError, match="vllm_xargs"):
        processor.processor.validate_params(given)
    processor.processor.validate_params(SamplingParams())
    processor.processor.validate_params(params(choice="none"))
    processor.update([(0, given, []), (1, SamplingParams(), [])])
    ended, free, *_ = allowed(processor, vocabulary)
    assert ended == {vocabulary.marks.failure}
    assert len(free) == vocabulary.size
