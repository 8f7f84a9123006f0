"""The adapter structured_output, driven as vLLM's manager and scheduler drive it."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, chain, repeat
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from vllm import SamplingParams
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import GrammarOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine.core import EngineCore
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar
from vllm.v1.structured_output.request import StructuredOutputRequest
from vllm.v1.structured_output.utils import apply_grammar_bitmask

from tests import tools
from toolgate_backend.adapters import engine_sequences, vllm_host
from toolgate_backend.adapters.engine_sequences import NO_GRAMMAR
from toolgate_backend.adapters.row_numbers import NumberedRows, RowNumbers
from toolgate_backend.adapters.structured_output import MAX_SLOW, EnforcementGrammar
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.errors import GrammarNotCreated
from toolgate_backend.grammars.worker_rpc import source_text
from toolgate_backend.tokens.masks import unpack
from toolgate_core import grammar_key
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource

# --- structured output ---
vllm_host.register()


def allowed(grammar, vocabulary):
    """By way of one row of a batch's bitmask, whose other rows stay as they are."""
    bitmask = torch.full((3, (vocabulary.size + 31) // 32), 5, dtype=torch.int32)
    grammar.fill_bitmask(bitmask, 1)
    assert (bitmask[[0, 2]] == 5).all()
    return set(unpack(bitmask[1].numpy()).tolist())


@pytest.fixture
def grammar(ours):
    return ours(choice="required")


def call(vocabulary):
    text = '\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n'
    return [
        vocabulary.marks.tokens["<tool_call>"],
        *vocabulary.encode(text),
        vocabulary.marks.tokens["</tool_call>"],
    ]


def test_drafts_after_the_end_are_rejected(ours, vocabulary):
    grammar = ours((), choice="none")
    end = vocabulary.marks.end_of_turn[0]
    assert grammar.validate_tokens([end, end]) == [end]
    assert not grammar.is_terminated()


def test_a_masked_token_is_rejected(grammar, vocabulary):
    assert not grammar.accept_tokens("r", list(vocabulary.encode("a")))


@pytest.mark.parametrize("verb", ["accept_tokens", "validate_tokens", "rollback", "next_row"])
def test_an_internal_error_ends_the_sequence_without_raising(ours, vocabulary, verb):
    grammar = ours(choice="required")
    machine = grammar.automaton
    drafts = call(vocabulary)[:2]

    def broken(*_):
        raise RuntimeError("broken")

    setattr(machine, "rollback" if verb == "rollback" else verb, broken)
    if verb == "next_row":
        allowed(grammar, vocabulary)
    elif verb == "accept_tokens":
        assert not grammar.accept_tokens("r", drafts)
    else:
        assert grammar.validate_tokens(drafts) == []
    assert allowed(grammar, vocabulary) == {vocabulary.marks.failure}
    assert not grammar.is_terminated()
    assert grammar.validate_tokens(drafts) == []
    grammar.rollback(1)
    assert not grammar.accept_tokens("r", [vocabulary.marks.failure or 0])


@pytest.mark.parametrize(
    ("clock", "seconds", "fails"),
    [
        ("thread_time", [1.0] * MAX_SLOW, True),
        ("thread_time", [1.0] * (MAX_SLOW - 1) + [0.001, 1.0], False),  # some are tolerated
        ("perf_counter", [1.0] * MAX_SLOW, False),  # of a busy machine
    ],
)
def test_slow_masks_end_their_sequence(ours, vocabulary, monkeypatch, clock, seconds, fails):
    grammar = ours(choice="required")
    now = chain(chain.from_iterable((0.0, each) for each in seconds), repeat(0.0))
    monkeypatch.setattr(f"time.{clock}", lambda: next(now))
    masks = [allowed(grammar, vocabulary) for _ in seconds]
    assert masks[-2] == {vocabulary.marks.tokens["<tool_call>"]}
    assert masks[-1] == ({vocabulary.marks.failure} if fails else masks[-2])
    assert grammar.accept_tokens("r", [*masks[-2]]) is not fails


# --- engine hooks ---


def scheduler(manager, grammars, kind=Scheduler):
    """vLLM's scheduler, in which these requests run."""
    made = kind.__new__(kind)
    made.vllm_config = manager.vllm_config
    made.structured_output_manager = manager
    engine_sequences.engine_sequences(made.vllm_config).step_masks.numbers = None
    made.requests = {name: running(name, grammar) for name, grammar in grammars.items()}
    return made


def running(name, grammar):
    structured = None
    if grammar is not None:
        structured = StructuredOutputRequest(vllm_host.structured_outputs_params(), grammar, True)
    return SimpleNamespace(
        request_id=name,
        structured_output_request=structured,
        use_structured_output=structured is not None,
        is_prefill_chunk=False,
    )


def step(scheduler, drafts=None):
    """The masks of a step with all requests."""
    scheduled = SimpleNamespace(
        has_structured_output_requests=True,
        num_scheduled_tokens=dict.fromkeys(scheduler.requests, 1),
        scheduled_spec_decode_tokens=drafts or {},
    )
    found = scheduler.last = scheduler.get_grammar_bitmask(scheduled)
    if found is None:
        return {}
    names, sent = found.structured_output_request_ids, found.grammar_bitmask
    rows = sent.new[sent.numbers] if isinstance(sent, NumberedRows) else sent  # all are new
    counts = [1 + len((drafts or {}).get(name, ())) for name in names]
    *begins, end = 0, *accumulate(counts)
    if end != len(rows):  # vLLM 0.33 has as many rows for each request
        begins = range(0, len(rows), len(rows) // len(names))
    masks = {
        name: [set(unpack(row).tolist()) for row in rows[begin : begin + count]]
        for name, begin, count in zip(names, begins, counts, strict=True)
    }
    return {name: each[0] if len(each) == 1 else each for name, each in masks.items()}


@pytest.fixture
def asked(monkeypatch):
    """The rows that vLLM's manager requests."""
    rows = []
    fill = EnforcementGrammar.fill_bitmask

    def recorded(self, bitmask, batch_index):
        rows.append(batch_index)
        fill(self, bitmask, batch_index)

    monkeypatch.setattr(EnforcementGrammar, "fill_bitmask", recorded)
    return rows


class Native(StructuredOutputGrammar):
    """A grammar of vLLM's own, which allows token 5."""

    def __init__(self):
        self.accepted = []

    def fill_bitmask(self, bitmask, batch_index):
        bitmask[batch_index] = 0
        bitmask[batch_index, 0] = 1 << 5

    def accept_tokens(self, request_id, tokens):
        self.accepted.append(tokens)
        return True

    def is_terminated(self):
        return False

    validate_tokens = rollback = reset = accept_tokens


@pytest.mark.parametrize("kind", [Scheduler, AsyncScheduler])
def test_a_step_of_enforced_requests_is_one_loop(manager, ours, vocabulary, asked, kind):
    call = vocabulary.marks.tokens["<tool_call>"]
    made = scheduler(manager, {"a": ours(choice="required"), "b": ours(choice="none")}, kind)
    made.requests["free"] = running("free", None)
    made.requests["prefilled"] = running("prefilled", ours(choice="none"))
    made.requests["prefilled"].is_prefill_chunk = True
    found = step(made)
    assert found.keys() == {"a", "b"}
    assert found["a"] == {call}
    assert call not in found["b"]
    assert not asked
    grammar = made.requests["a"].structured_output_request.grammar
    assert grammar.accept_tokens("a", [call])
    assert call not in step(made)["a"]


def test_requests_that_are_scheduled_and_then_aborted_have_no_mask(manager, ours):
    made = scheduler(manager, {"a": ours(choice="none"), "b": ours(choice="none")})
    names = [*made.requests]
    del made.requests["a"]
    scheduled = SimpleNamespace(
        has_structured_output_requests=True,
        num_scheduled_tokens=dict.fromkeys(names, 1),
        scheduled_spec_decode_tokens={},
    )
    assert made.get_grammar_bitmask(scheduled).structured_output_request_ids == ["b"]
    made.requests.clear()
    assert made.get_grammar_bitmask(scheduled) is None


def test_a_step_without_structured_requests_has_no_masks(manager):
    assert step(scheduler(manager, {"free": None})) == {}
    scheduled = SimpleNamespace(has_structured_output_requests=False)
    assert scheduler(manager, {}).get_grammar_bitmask(scheduled) is None


def test_a_step_with_another_grammar_is_left_to_vllm(manager, ours, vocabulary, asked):
    made = scheduler(manager, {"a": ours(choice="required"), "b": Native()})
    call = {vocabulary.marks.tokens["<tool_call>"]}
    assert step(made) == {"a": call, "b": {5}}
    assert asked == [0]
    del made.requests["b"]
    assert step(made) == {"a": call}
    assert asked == [0]


def test_drafts_are_left_to_vllm(manager, ours, vocabulary, asked):
    """One mask for each position, with the grammar advanced by the draft."""
    manager.vllm_config.num_speculative_tokens = 1
    manager.vllm_config.model_config.is_diffusion = False
    call = vocabulary.marks.tokens["<tool_call>"]
    made = scheduler(manager, {"a": ours(choice="required")})
    first, second = step(made, {"a": [call]})["a"]
    assert (first, call in second) == ({call}, False)
    assert asked == [0, 1]
    grammar = made.requests["a"].structured_output_request.grammar
    assert grammar.validate_tokens([call]) == [call]  # it is where it was


def test_workers_with_tables_get_numbers_of_rows_for_drafts_too(manager, ours, vocabulary, asked):
    """The masks, and the numbers of drafts that they constrain, are those of vLLM's own loop."""
    manager.vllm_config.num_speculative_tokens = 3
    manager.vllm_config.model_config.is_diffusion = False
    call, text = vocabulary.marks.tokens["<tool_call>"], vocabulary.encode("a")[0]
    made = scheduler(manager, {name: ours(choice="required") for name in "abcd"})
    drafts = {"a": [call, -1, -1], "b": [text, call], "c": [call]}
    expected, acceptable = step(made, drafts), made.last.num_acceptable_drafts
    assert asked
    del asked[:]
    masks = engine_sequences.engine_sequences(made.vllm_config).step_masks
    masks.numbers = RowNumbers()
    assert step(made, drafts) == expected
    assert made.last.num_acceptable_drafts == acceptable == [1, 2, 1, 0]
    assert isinstance(made.last.grammar_bitmask, NumberedRows)
    made.requests["e"] = running("e", Native())
    assert step(made, drafts)["e"] == {5}
    assert isinstance(made.last.grammar_bitmask, np.ndarray)


def test_sampled_tokens_reach_their_grammar(manager, ours, vocabulary):
    manager.reasoner_cls = None
    call, text = vocabulary.marks.tokens["<tool_call>"], vocabulary.encode("a")
    native = Native()
    made = scheduler(manager, {"a": ours(choice="required"), "b": native, "free": None})
    requests = made.requests
    assert manager.accept_tokens(requests["free"], list(text))
    assert manager.accept_tokens(requests["b"], list(text))
    assert native.accepted == [list(text)]
    assert not manager.accept_tokens(requests["a"], list(text))
    assert manager.accept_tokens(requests["a"], [call])
    assert not manager.accept_tokens(requests["a"], [call])


def test_the_runner_accepts_rows_in_any_order():
    batch = SimpleNamespace(req_ids=["a", "free", "b", "c"])
    rows = {"a": [1], "b": [2], "c": [3, 4]}
    bitmask = np.zeros((3, 1), np.int32)
    for row, name in enumerate(("c", "a", "b")):
        bitmask[row] = sum(1 << token for token in rows[name])
    logits = torch.zeros(4, 6)
    scheduled = SimpleNamespace(scheduled_spec_decode_tokens={})
    apply_grammar_bitmask(scheduled, GrammarOutput(["c", "a", "b"], bitmask), batch, logits)
    left = [torch.nonzero(row > float("-inf")).flatten().tolist() for row in logits]
    assert left == [rows["a"], [0, 1, 2, 3, 4, 5], rows["b"], rows["c"]]


# --- drafts ---
def drafted(manager, grammar, drafts):
    """What vLLM schedules of these drafts."""
    manager.vllm_config.speculative_config = SimpleNamespace(method="ngram")
    manager.vllm_config.num_speculative_tokens = 4
    return manager.validate_tokens(running("a", grammar), drafts)


def test_forced_text_is_drafted_and_drafts_for_other_grammars_are_only_validated(manager):
    """vLLM replaces rejected drafts with -1."""
    grammar = EnforcementGrammar.__new__(EnforcementGrammar)
    grammar.drafts = lambda proposed, limit: [*proposed, limit]
    assert drafted(manager, grammar, [5, 6, -1, -1]) == [5, 6, 4]
    other = SimpleNamespace(validate_tokens=lambda tokens: tokens[:1])
    assert drafted(manager, other, [5, 6, -1]) == [5]


# --- engine requests ---


@pytest.fixture
def loaded(manager):
    """A grammar in the engine's process."""
    [tool] = parse_tools([tools.WEATHER])
    key = grammar_key.grammar_key(tool.hash, dialect="qwen3", tokenizer="t", grammar_format="f")
    source = GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
    engine = SimpleNamespace(vllm_config=manager.vllm_config)
    EngineCore.toolgate_load(engine, "test", {key: source_text(source)})
    while not EngineCore.toolgate_verdicts(engine, [key]):
        time.sleep(0.001)
    yield key
    EngineCore.toolgate_release(engine, "test", [key])


def request(params):
    return SimpleNamespace(
        request_id="r",
        prompt_token_ids=[1, 2],
        sampling_params=params,
        structured_output_request=None,
    )


def enforced(**spec):
    held = Spec(**spec).to_extra_args()
    return request(
        SamplingParams(extra_args=held, structured_outputs=vllm_host.structured_outputs_params())
    )


def test_enforced_requests_get_an_enforcement_grammar(manager, loaded):
    engine = SimpleNamespace(vllm_config=manager.vllm_config)
    grammar = manager._create_grammar(enforced(choice="required", keys=(loaded,)))
    assert isinstance(grammar, EnforcementGrammar)
    before = EngineCore.toolgate_report(engine)
    assert (before["grammars"], before["sequences"]) == (1, 1)
    del grammar
    EngineCore.toolgate_release(engine, "test", [loaded])
    assert EngineCore.toolgate_report(engine) == before | {"grammars": 0, "sequences": 0}


def test_a_missing_grammar_has_an_error_that_the_endpoint_recognises(manager):
    with pytest.raises(GrammarNotCreated, match=f"^{NO_GRAMMAR}: Grammar gone is not loaded"):
        manager._create_grammar(enforced(choice="required", keys=("gone",)))


def test_vllm_compiles_the_grammars_of_other_requests(manager):
    built = []

    def compile_grammar(*given, **others):
        built.append(given)
        return "vLLM's own"

    manager.backend = SimpleNamespace(compile_grammar=compile_grammar)
    asked = request(SamplingParams())
    asked.structured_output_request = SimpleNamespace(structured_output_key=("json", "{}"))
    assert manager._create_grammar(asked) == "vLLM's own"
    assert [given[:2] for given in built] == [("json", "{}")]


@pytest.mark.parametrize("in_pool", [True, False])
def test_enforced_requests_need_no_back_end_of_vllm(manager, loaded, vocabulary, in_pool):
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


def test_the_grammar_of_a_known_turn_is_created_at_once(manager, loaded, monkeypatch):
    """Without a thread of the pool. What may take longer, or fails, is left to the pool."""
    known = {"choice": "required", "keys": (loaded,)}

    def is_at_once(**spec):
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


def test_other_requests_get_a_back_end_of_vllm(manager):
    manager.tokenizer = None
    manager.backend_name = None  # from 0.33 on
    asked = request(SamplingParams(structured_outputs=vllm_host.structured_outputs_params()))
    asked.sampling_params.structured_outputs._backend = "none that exists"
    held = StructuredOutputRequest.from_sampling_params(asked.sampling_params)
    asked.structured_output_request = held
    with pytest.raises(ValueError, match="none that exists"):
        manager.grammar_init(asked)
