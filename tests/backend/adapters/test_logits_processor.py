"""The V1 adapter over vLLM's own batch updates: rows come, go, move, are preempted, and fail."""

import time
from types import SimpleNamespace

import pytest
import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor.interface import BatchUpdate

from tests import tools
from toolgate_backend.adapters.logits_processor import EnforcementLogitsProcessor
from toolgate_backend.adapters.structured_output import MAX_SLOW
from toolgate_backend.enforcement.spec import EXTRA_ARG, Spec
from toolgate_backend.grammars import store
from toolgate_backend.grammars.worker_rpc import source_text
from toolgate_core import grammar_key
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource


# --- logits processor ---
@pytest.fixture(scope="module")
def made(model_config):
    config = SimpleNamespace(
        model_config=model_config,
        scheduler_config=SimpleNamespace(max_num_seqs=8),
        num_speculative_tokens=0,
    )
    return EnforcementLogitsProcessor(config, torch.device("cpu"), False)


@pytest.fixture
def processor(made):
    """Without rows."""
    made._sequences.clear()
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


def update(processor, added=None, removed=None, moved=None):
    processor.update_state(
        BatchUpdate(
            batch_size=8,
            removed=removed or [],
            added=[(row, given, None, output) for row, given, output in added or []],
            moved=moved or [],
        )
    )


def allowed(processor, vocabulary):
    """What each of four rows may sample."""
    logits = processor.apply(torch.zeros(4, vocabulary.size))
    return [set(torch.nonzero(row > float("-inf")).flatten().tolist()) for row in logits]


def test_only_enforced_requests_are_masked(processor, vocabulary, key):
    update(processor, [(0, SamplingParams(), []), (1, params(choice="required", keys=(key,)), [])])
    free, forced, *_ = allowed(processor, vocabulary)
    assert len(free) == vocabulary.size
    assert forced == {vocabulary.marks.tokens["<tool_call>"]}


def test_a_resumed_sequence_is_rebuilt_after_preemption(processor, vocabulary, key):
    text = vocabulary.encode('\n{"name": "get_weather", "arguments": {"city": "a')
    tokens = [vocabulary.marks.tokens["<tool_call>"], *text]
    wanted = {"choice": "required", "keys": (key,)}
    update(processor, [(0, params(**wanted), tokens)])
    update(processor, [(1, params(**wanted, accepted=tuple(tokens[:4])), output := tokens[4:])])
    heir = params(**wanted, accepted=tuple(tokens[:4]))
    update(processor, [(2, heir, [])])
    rows = allowed(processor, vocabulary)
    assert rows[0] == rows[1]
    assert tokens[4] in rows[2]
    update(processor, removed=[2])
    update(processor, [(3, heir, output)])
    assert allowed(processor, vocabulary)[3] == rows[0]


@pytest.mark.parametrize(
    "trouble", ["no grammar", "masked token", "fewer tokens", "matcher breaks", "wrong beginning"]
)
def test_a_failing_sequence_does_not_affect_others(processor, vocabulary, key, trouble):
    """The failing sequence gets the failure token; no exception reaches the engine."""
    output = [vocabulary.marks.tokens["<tool_call>"]] if trouble == "fewer tokens" else []
    accepted = (5, 6) if trouble == "wrong beginning" else ()
    keys_ = ("gone",) if trouble == "no grammar" else (key,)
    update(
        processor,
        [
            (0, params(choice="required", keys=keys_, accepted=accepted), output),
            (1, params(choice="none"), []),
        ],
    )
    if trouble in ("masked token", "fewer tokens"):
        allowed(processor, vocabulary)
        output[:] = [] if output else vocabulary.encode("a")[:1]
    if trouble == "matcher breaks":
        output.append(vocabulary.marks.tokens["<tool_call>"])
        processor._sequences[0].grammar.automaton.accept = lambda token: 1 / 0
    broken, neighbour, *_ = allowed(processor, vocabulary)
    assert broken == {vocabulary.marks.failure}
    assert len(neighbour) > 1000


def test_slow_masks_end_their_sequence(processor, vocabulary, slow_masks):
    update(processor, [(0, params(choice="none"), []), (1, params(choice="none"), [])])
    slow_masks(processor._sequences[0].grammar.automaton, 60.0)
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
        processor.validate_params(given)
    processor.validate_params(SamplingParams())
    processor.validate_params(params(choice="none"))
    update(processor, [(0, given, []), (1, SamplingParams(), [])])
    ended, free, *_ = allowed(processor, vocabulary)
    assert ended == {vocabulary.marks.failure}
    assert len(free) == vocabulary.size
