"""The workers' part of the adapter structured_output: rows of masks from a table on the device.

vLLM's scheduler sends the masks of a step to all workers as a bitmask, which each copies to its
device. Here a step sends `NumberedRows`, if all workers can apply them. What else comes, such as
the masks of vLLM's own grammars, is a bitmask and left to vLLM. The workers are asked when the
server starts, before the first request.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from vllm.logger import init_logger

from toolgate_core.host_probe import find, find_problems

from .apply_masks import make_table
from .private_names import EXECUTORS, ROWS, ROWS_V1, ROWS_V2
from .row_numbers import NumberedRows, RowNumbers, RowTable, slots_of

logger = init_logger(__name__)

METHOD = "toolgate_keep_rows"
DEVICES = ("cpu", "cuda")


def ask_workers(engine: Any) -> RowNumbers | None:
    """Return numbers of rows if all workers of an engine understand them from now on. None if one
    does not, so that they get bitmasks."""
    executor, slots = engine.model_executor, slots_of(engine.vllm_config)
    reasons = {*find_problems(EXECUTORS)}
    if not reasons and type(executor) not in map(find, EXECUTORS):
        reasons = {f"the executor {type(executor).__name__}"}
    reasons = reasons or {*executor.collective_rpc(METHOD, args=(slots,))} - {None}
    if not reasons:
        return RowNumbers(slots)
    logger.warning(
        "Toolgate: each step sends its masks to the workers as a whole, which costs time with many "
        "sequences. This server has %s.",
        " and ".join(sorted(reasons)),
    )
    return None


def keep_rows(worker: Any, slots: int) -> str | None:
    """Apply `NumberedRows` from now on. Return what prevents this worker from it, or None. Never
    raises: vLLM's executor would lose the answers of the other workers."""
    try:
        reason = _unsupported(worker)
        if reason is None:
            _keep_rows(worker, slots)
        return reason
    except Exception as error:
        logger.exception("Toolgate: a worker cannot keep rows of masks")
        return f"a worker with the error {error!r}"


def _unsupported(worker: Any) -> str | None:
    for problem in find_problems((*ROWS, ROWS_V2 if worker.use_v2_model_runner else ROWS_V1)):
        return f"another release of vLLM, in which {problem}"
    config = worker.vllm_config
    if worker.device.type not in DEVICES:
        return f"the device {worker.device.type}"
    if config.model_config.is_diffusion:
        return "a diffusion model"
    if config.parallel_config.enable_batch_sharded_sampling:
        return "batch-sharded sampling"
    if config.speculative_config and config.speculative_config.enable_adaptive_verification:
        return "adaptive verification of drafts"
    return None


def _keep_rows(worker: Any, slots: int) -> None:
    is_v2, model = worker.use_v2_model_runner, worker.vllm_config.model_config
    if is_v2 and worker.model_runner.structured_outputs_worker is None:
        return  # another stage of the pipeline applies masks
    if is_v2:
        owner = import_module("vllm.v1.worker.gpu.structured_outputs").StructuredOutputsWorker
    else:
        owner = import_module("vllm.v1.worker.gpu_model_runner")
    table = make_table(
        worker.device,
        model.get_vocab_size(),
        forces=False,
        slots=slots,
        types=(model.dtype, torch.float32),
    )
    hook(owner, read_v2 if is_v2 else read_v1, table)


Call = tuple[torch.Tensor, Any, Sequence[str], Sequence[str], npt.NDArray[Any]]
"""What a model runner calls `apply_grammar_bitmask` with: the logits, the masks and their requests,
the requests of the batch, and where the logits of each end; those of the first begin after 0."""


def read_v1(scheduler_output: Any, grammar_output: Any, input_batch: Any, logits: Any) -> Call:
    drafts, batch = scheduler_output.scheduled_spec_decode_tokens, input_batch.req_ids
    ends = np.cumsum([0, *(1 + len(drafts.get(each, ())) for each in batch)])
    requests = grammar_output.structured_output_request_ids
    return logits, grammar_output.grammar_bitmask, requests, batch, ends


def read_v2(
    _worker: Any, logits: Any, input_batch: Any, grammar_req_ids: Any, grammar_bitmask: Any
) -> Call:
    batch, ends = input_batch.req_ids, input_batch.cu_num_logits_np
    return logits, grammar_bitmask, grammar_req_ids, batch, ends


def hook(owner: Any, read: Callable[..., Call], table: RowTable) -> None:
    """Apply `NumberedRows` in place of bitmasks. `owner` is the module of the V1 model runner, or
    the class `StructuredOutputsWorker` of the V2 model runner."""
    original = owner.apply_grammar_bitmask

    @functools.wraps(original)
    def apply_grammar_bitmask(*arguments: Any) -> None:
        logits, sent, requests, batch, ends = read(*arguments)
        if isinstance(sent, NumberedRows):
            table.apply(logits, places_of(requests, batch, ends), sent)
        else:
            original(*arguments)

    owner.apply_grammar_bitmask = apply_grammar_bitmask


def places_of(
    requests: Sequence[str], batch: Sequence[str], ends: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Return the rows of logits of these requests."""
    place_of = {request: place for place, request in enumerate(batch)}
    at = np.array([place_of[request] for request in requests])
    places: npt.NDArray[Any] = ends[at]
    if ends[-1] > len(batch):
        counts = ends[at + 1] - places
        places = np.arange(counts.sum()) + np.repeat(places - np.cumsum(counts) + counts, counts)
    return places
