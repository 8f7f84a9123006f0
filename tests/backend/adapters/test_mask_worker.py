"""Whether the workers keep rows of masks: who is asked, and what they answer."""

import copy
from types import SimpleNamespace

import pytest
import torch
from vllm.v1.executor.multiproc_executor import MultiprocExecutor
from vllm.v1.executor.uniproc_executor import ExecutorWithExternalLauncher, UniProcExecutor
from vllm.v1.worker import gpu_model_runner
from vllm.v1.worker.worker_base import WorkerBase

from toolgate_backend.adapters import mask_worker, vllm_host
from toolgate_backend.adapters.private_names import ROWS_V1
from toolgate_backend.adapters.row_numbers import SLOTS

vllm_host.register()


# --- the engine asks ---


def engine(answers, kind=UniProcExecutor, sequences=4, drafts=0):
    executor, calls = kind.__new__(kind), []

    def collective_rpc(method, args):
        calls.append((method, args))
        return answers

    executor.collective_rpc = collective_rpc
    scheduler = SimpleNamespace(max_num_seqs=sequences)
    config = SimpleNamespace(scheduler_config=scheduler, num_speculative_tokens=drafts)
    return SimpleNamespace(model_executor=executor, vllm_config=config, calls=calls)


@pytest.mark.parametrize("kind", [UniProcExecutor, MultiprocExecutor])
def test_rows_are_numbered_if_every_worker_keeps_them(kind):
    asked = engine([None, None], kind)
    assert mask_worker.ask_workers(asked)._slots == SLOTS
    assert asked.calls == [("toolgate_keep_rows", (SLOTS,))]


def test_the_table_has_room_for_every_position_of_a_step():
    assert mask_worker.ask_workers(engine([None], sequences=1024, drafts=3))._slots == 4096


def test_one_worker_that_does_not_keep_rows_is_enough_for_bitmasks(caplog_vllm):
    assert mask_worker.ask_workers(engine([None, "no memory"])) is None
    assert "This server has no memory." in caplog_vllm.text


class Ray(MultiprocExecutor):
    """As vLLM's newer executor for Ray."""


@pytest.mark.parametrize("kind", [ExecutorWithExternalLauncher, Ray])
def test_other_executors_are_not_asked(kind, caplog_vllm):
    asked = engine([None], kind)
    assert mask_worker.ask_workers(asked) is None
    assert not asked.calls
    assert f"the executor {kind.__name__}" in caplog_vllm.text


def test_the_workers_are_asked_once(manager, monkeypatch):
    asked = engine([None])
    asked.vllm_config.model_config = manager.vllm_config.model_config
    assert vllm_host._sequences(asked).step_masks.numbers is not None
    vllm_host._sequences(asked)
    assert len(asked.calls) == 1


# --- a worker answers ---


@pytest.fixture
def caplog_vllm(caplog, monkeypatch):
    monkeypatch.setattr(mask_worker.logger, "propagate", True)
    return caplog


@pytest.fixture
def worker(manager, monkeypatch):
    """A worker with the V1 model runner."""
    function = gpu_model_runner.apply_grammar_bitmask
    monkeypatch.setattr(gpu_model_runner, "apply_grammar_bitmask", function)
    made = WorkerBase.__new__(WorkerBase)
    made.vllm_config = copy.copy(manager.vllm_config)
    made.vllm_config.parallel_config = SimpleNamespace(enable_batch_sharded_sampling=False)
    made.device, made.use_v2_model_runner, made.model_runner = torch.device("cpu"), False, None
    return made


def test_a_worker_keeps_rows(worker):
    before = gpu_model_runner.apply_grammar_bitmask
    assert worker.toolgate_keep_rows(SLOTS) is None
    assert gpu_model_runner.apply_grammar_bitmask.__wrapped__ is before


def test_a_worker_of_another_stage_of_the_pipeline_needs_no_table(worker, monkeypatch):
    monkeypatch.setattr(mask_worker, "ROWS_V2", ROWS_V1)  # which needs no Triton
    worker.use_v2_model_runner = True
    worker.model_runner = SimpleNamespace(structured_outputs_worker=None)
    assert worker.toolgate_keep_rows(SLOTS) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda worker: setattr(worker, "device", torch.device("meta")), "the device meta"),
        (
            lambda worker: setattr(
                worker.vllm_config.parallel_config, "enable_batch_sharded_sampling", True
            ),
            "batch-sharded sampling",
        ),
        (
            lambda worker: setattr(
                worker.vllm_config,
                "speculative_config",
                SimpleNamespace(enable_adaptive_verification=True),
            ),
            "adaptive verification of drafts",
        ),
        (
            lambda worker: setattr(
                worker.vllm_config, "model_config", SimpleNamespace(is_diffusion=True)
            ),
            "a diffusion model",
        ),
        (
            lambda worker: setattr(worker, "vllm_config", None),
            "a worker with the error AttributeError",
        ),
    ],
)
def test_a_worker_that_cannot_keep_rows_says_why(worker, change, reason):
    before = gpu_model_runner.apply_grammar_bitmask
    change(worker)
    assert worker.toolgate_keep_rows(SLOTS).startswith(reason)
    assert gpu_model_runner.apply_grammar_bitmask is before


def test_a_missing_private_name_is_a_reason(worker, monkeypatch):
    monkeypatch.setattr(gpu_model_runner, "apply_grammar_bitmask", lambda logits: None)
    found = worker.toolgate_keep_rows(SLOTS)
    assert found.startswith("another release of vLLM, in which vllm.v1.worker.gpu_model_runner.")
