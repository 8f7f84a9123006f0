"""Drafts of forced text: their configuration, the worker's hooks, and what is scheduled."""

import json
from types import SimpleNamespace

import pytest
import torch
from vllm.config import CUDAGraphMode, VllmConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine.core import EngineCore
from vllm.v1.worker.gpu import model_runner
from vllm.v1.worker.gpu.model_runner import GPUModelRunner

from tests.models import tiny_model
from toolgate_backend.adapters import draft_config, draft_worker, forced_drafts, probe
from toolgate_backend.adapters.private_names import FORCED_DRAFTS
from toolgate_backend.adapters.structured_output import EnforcementGrammar
from toolgate_backend.enforcement.jump_forward import StepPlan
from toolgate_backend.errors import IncompatibleServer


# --- draft config ---
def test_vllm_takes_the_flags(monkeypatch):
    """From 0.33 on, vLLM drops the schedule on the V1 model runner, the only one without a GPU."""
    drop = "_maybe_disable_dynamic_sd_for_v1"
    monkeypatch.setattr(VllmConfig, drop, lambda config: None, raising=False)
    flag, value, *graphs = draft_config.flags(8)
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
    parsed = EngineArgs.add_cli_args(FlexibleArgumentParser()).parse_args(graphs)
    assert parsed.compilation_config.cudagraph_mode is CUDAGraphMode.FULL


def speculative(method=draft_config.METHOD):
    return SimpleNamespace(**{"method": method, draft_config.SCHEDULE: [(1, 1, 0)]})


def config(**changes):
    """A server that may draft."""
    found = {
        "speculative_config": speculative(),
        "num_speculative_tokens": 8,
        "use_v2_model_runner": True,
        "scheduler_config": SimpleNamespace(async_scheduling=True),
        "model_config": SimpleNamespace(is_hybrid=False),
        **graphs("FULL"),
        **parallel(1, 1),
    }
    return SimpleNamespace(**{**found, **changes})


def test_a_server_that_drafts_as_configured_starts():
    draft_config.check(config(), 8)
    draft_config.check(config(**graphs("NONE")), 8)
    draft_config.check(config(speculative_config=None), 0)


def graphs(mode):
    return {"compilation_config": SimpleNamespace(cudagraph_mode=CUDAGraphMode[mode])}


def parallel(data, pipeline):
    found = SimpleNamespace(data_parallel_size=data, pipeline_parallel_size=pipeline)
    return {"parallel_config": found}


@pytest.mark.parametrize(
    ("changes", "wanted", "says"),
    [
        ({}, 0, "Set TOOLGATE_FORCED_DRAFTS"),
        ({}, 4, "with this --speculative-config"),
        ({"speculative_config": None}, 8, "with this --speculative-config"),
        ({"use_v2_model_runner": False}, 8, "V1 model runner"),
        ({"scheduler_config": SimpleNamespace(async_scheduling=False)}, 8, "--no-async-sched"),
        *((parallel(*sizes), 8, "data or pipeline parallelism") for sizes in ((2, 1), (1, 2))),
        ({"model_config": SimpleNamespace(is_hybrid=True)}, 8, "recurrent layers"),
        (graphs("FULL_AND_PIECEWISE"), 8, "Add cudagraph_mode=FULL to --compilation-config"),
    ],
)
def test_other_servers_are_refused(changes, wanted, says):
    with pytest.raises(IncompatibleServer, match=says):
        draft_config.check(config(**changes), wanted)


def test_a_missing_private_name_is_reported(monkeypatch):
    monkeypatch.delattr("vllm.v1.worker.gpu.model_runner.init_speculator")
    with pytest.raises(IncompatibleServer, match="init_speculator is missing"):
        probe.check(FORCED_DRAFTS)


# --- draft worker ---
CPU = torch.device("cpu")


def worker_config(method=draft_config.METHOD):
    return SimpleNamespace(
        speculative_config=speculative(method),
        scheduler_config=SimpleNamespace(max_num_seqs=4),
        num_speculative_tokens=3,
    )


def states():
    return SimpleNamespace(
        draft_tokens=torch.full((4, 3), -1, dtype=torch.int64),
        req_id_to_index={"a": 2, "b": 0, "c": 1},
    )


@pytest.fixture
def hooked(monkeypatch):
    """What vLLM's own methods saw, once the hooks are there."""
    seen = []

    def prepare_inputs(self, *given):
        seen.append(self.req_states.draft_tokens.tolist())
        return f"prepared {len(given)}"

    monkeypatch.setattr(GPUModelRunner, "prepare_inputs", prepare_inputs)
    monkeypatch.setattr(model_runner, "init_speculator", lambda *given: "vLLM's own")
    draft_worker.register()
    return seen


def prepared(method, drafts):
    runner = GPUModelRunner.__new__(GPUModelRunner)
    runner.vllm_config, runner.req_states, runner.device = worker_config(method), states(), CPU
    scheduled = SimpleNamespace(scheduled_spec_decode_tokens=drafts)
    return runner.prepare_inputs(scheduled, None, None, 0)


def test_the_scheduler_s_drafts_are_there_before_the_inputs_are_prepared(hooked):
    assert prepared(draft_config.METHOD, {"a": [7, 8, 9], "b": [5]}) == "prepared 4"
    assert hooked == [[[5, 0, 0], [-1, -1, -1], [7, 8, 9], [-1, -1, -1]]]


@pytest.mark.parametrize(("method", "drafts"), [("ngram", {"a": [7]}), (draft_config.METHOD, {})])
def test_other_steps_are_left_alone(hooked, method, drafts):
    assert prepared(method, drafts) == "prepared 4"
    assert hooked == [[[-1, -1, -1]] * 4]


def test_no_drafter_runs(hooked):
    drafter = model_runner.init_speculator(worker_config(), CPU, states())
    drafts = drafter.propose(SimpleNamespace(num_reqs=2), None, num_speculative_tokens=0)
    assert drafts.shape == (2, 3)
    assert drafter.draft_logits is None
    assert model_runner.init_speculator(worker_config("eagle"), CPU, states()) == "vLLM's own"


# --- forced drafts ---
class Counting(EnforcementGrammar):
    """Allows consecutive numbers, and forces five of them."""

    def __init__(self, last):
        self.last = last

    def plan(self, drafts, limit):
        pairs = zip(drafts, range(self.last + 1, self.last + 100), strict=False)
        valid = next((at for at, pair in enumerate(pairs) if pair[0] != pair[1]), len(drafts))
        begin = self.last + valid + 2
        return StepPlan([], valid, list(range(begin, begin + min(limit, 5))))


def planned(scheduled, *, most=4, places=100, **grammars):
    """The requests after a step with these drafts."""
    requests = {name: SimpleNamespace(spec_token_ids=[]) for name in grammars}
    config = SimpleNamespace(
        num_speculative_tokens=most,
        compilation_config=SimpleNamespace(max_cudagraph_capture_size=places),
    )
    forced_drafts.plan(requests, grammars, scheduled, config, len(grammars))
    return {name: each.spec_token_ids for name, each in requests.items()}


def test_drafts_that_the_last_tokens_rule_out_become_padding():
    scheduled = {"a": [11, 12, 13], "b": [21, 7, 23], "c": [9, 32]}
    planned(scheduled, a=Counting(10), b=Counting(20), c=Counting(30), d=Counting(40))
    assert scheduled == {"a": [11, 12, 13], "b": [21, -1, -1], "c": [-1, -1]}


def test_the_next_drafts_follow_the_valid_ones_and_one_more_token():
    found = planned({"a": [11, 12, -1]}, a=Counting(10), b=Counting(20))
    assert found == {"a": [14, 15, 16, 17], "b": [22, 23, 24, 25]}


@pytest.mark.parametrize(("places", "drafts"), [(10, 4), (8, 3), (6, 2), (2, 0), (1, 0)])
def test_the_drafts_of_a_step_have_places_in_one_graph(places, drafts):
    found = planned({}, places=places, a=Counting(10), b=Counting(20))
    assert {name: len(each) for name, each in found.items()} == {"a": drafts, "b": drafts}


@pytest.mark.parametrize("method", [draft_config.METHOD, "eagle"])
def test_the_engine_asks_workers_without_a_drafter_for_no_drafts(monkeypatch, method):
    monkeypatch.setattr(EngineCore, "step_with_batch_queue", lambda self: "stepped")
    forced_drafts.register()
    engine = EngineCore.__new__(EngineCore)
    engine.check_for_draft_tokens = True
    engine.vllm_config = SimpleNamespace(speculative_config=speculative(method))
    assert engine.step_with_batch_queue() == "stepped"
    assert engine.check_for_draft_tokens == (method == "eagle")
