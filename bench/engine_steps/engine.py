"""vLLM's own engine loop, scheduler and structured-output manager in this process."""

from __future__ import annotations

from functools import partial
from typing import Any

from vllm.engine.arg_utils import EngineArgs
from vllm.v1.engine.core import EngineCore

from toolgate_backend.adapters import vllm_host
from toolgate_backend.adapters.probe import patch_version_lookup

from .cpu_times import CpuTimes
from .device import Device
from .executor import BLOCK_SIZE, FakeExecutor
from .processor import HostProcessor

MAX_LENGTH = 4096
BATCHED_TOKENS = 8192


def make_config(model: str, streams: int) -> Any:
    """The VllmConfig of an engine on a GPU as far as the scheduler is concerned."""
    patch_version_lookup()
    vllm_host.register()
    arguments = EngineArgs(
        model=model,
        dtype="float32",
        max_model_len=MAX_LENGTH,
        max_num_seqs=streams,
        max_num_batched_tokens=BATCHED_TOKENS,
        enforce_eager=True,
        load_format="dummy",
        distributed_executor_backend="uni",
    )
    config = arguments.create_engine_config()
    # On the CPU platform, vLLM sets these to other values.
    config.scheduler_config.async_scheduling = True
    config.cache_config.block_size = BLOCK_SIZE
    return config


def make_engine(
    config: Any, device: Device, times: CpuTimes, processor: HostProcessor | None
) -> EngineCore:
    executor = partial(FakeExecutor, device=device, times=times, processor=processor)
    engine = EngineCore(config, executor, log_stats=True)
    if engine.batch_queue is None:
        raise RuntimeError("vLLM's engine has no batch queue, so it does not schedule ahead")
    return engine
