"""The configuration of an engine with drafts of forced text under async scheduling.

vLLM has no speculative method whose drafts come from the scheduler. `ngram_gpu` is the method that
needs no draft model, runs under async scheduling and gives the workers their rejection sampler and
buffers. A schedule of zero drafts for batches of every size turns its own drafts off: no request
gets drafts, except those to which forced_drafts.py gives some.

The sequences of a step then have different numbers of tokens. By default, vLLM captures full graphs
for steps with one token of each sequence only, so that one sequence with drafts would put the whole
batch on graphs of the parts between the layers' attention. Full graphs for all steps, up to vLLM's
largest size, take both. This module does not import vLLM.
"""

from __future__ import annotations

import json
from typing import Any

from toolgate_core.host_probe import optional

from ..errors import IncompatibleServer
from . import probe
from .private_names import FORCED_DRAFTS

METHOD = "ngram_gpu"
GRAPH_FLAGS = ["-cc.cudagraph_mode", "FULL"]
GRAPHS = ("FULL", "NONE")
"""NONE is that of --enforce-eager, and of a CPU."""
DEFAULT_PLACES = 512
"""vLLM's largest graph, also where none is captured."""
SCHEDULE = "num_speculative_tokens_per_batch_size"


def flags(count: int) -> list[str]:
    """vLLM's flags for at most `count` draft tokens in a step of a sequence."""
    config = {"method": METHOD, "num_speculative_tokens": count, SCHEDULE: [[1, 1, 0]]}
    return ["--speculative-config", json.dumps(config), *GRAPH_FLAGS]


def places(config: Any) -> int:
    """Return the most tokens in a step that a captured graph takes. With more, a step costs more
    than its drafts save."""
    return config.compilation_config.max_cudagraph_capture_size or DEFAULT_PLACES


def is_configured(config: Any) -> bool:
    """Return whether an engine with this VllmConfig drafts forced text under async scheduling."""
    speculative = config.speculative_config
    if speculative is None or speculative.method != METHOD:
        return False
    schedule = optional(speculative, SCHEDULE) or ()
    return len(schedule) > 0 and not any(count for _, _, count in schedule)


def check(config: Any, wanted: int) -> None:
    """Raise IncompatibleServer if the server would not draft as TOOLGATE_FORCED_DRAFTS states, or
    would draft wrongly."""
    if not wanted:
        if is_configured(config):
            raise IncompatibleServer(
                f"The server's speculative config ({METHOD} with a schedule of zero drafts) needs "
                "Toolgate's drafts of forced text. Set TOOLGATE_FORCED_DRAFTS, or remove "
                "--speculative-config."
            )
        return
    probe.check(FORCED_DRAFTS, ", or unset TOOLGATE_FORCED_DRAFTS")
    if (reason := _unsupported(config, wanted)) is not None:
        raise IncompatibleServer(
            f"TOOLGATE_FORCED_DRAFTS={wanted} is not supported {reason}, or unset "
            "TOOLGATE_FORCED_DRAFTS."
        )


def _unsupported(config: Any, wanted: int) -> str | None:
    if not config.use_v2_model_runner:
        return (
            "on vLLM's V1 model runner, which overwrites the scheduler's drafts with its own. "
            "Unset VLLM_USE_V2_MODEL_RUNNER (the V2 runner needs a GPU)"
        )
    if not config.scheduler_config.async_scheduling:
        return (
            "without async scheduling. Remove --no-async-scheduling, or draft with "
            '--speculative-config {"method": "ngram", …}, which proposes forced text, too'
        )
    parallel = config.parallel_config
    if parallel.data_parallel_size > 1 or parallel.pipeline_parallel_size > 1:
        return "with data or pipeline parallelism. Use tensor parallelism"
    if config.model_config.is_hybrid:
        return "for models with recurrent layers, whose states drafts would advance"
    if not is_configured(config) or config.num_speculative_tokens != wanted:
        return f"with this --speculative-config. Start the server with {' '.join(flags(wanted))}"
    if (graphs := config.compilation_config.cudagraph_mode.name) not in GRAPHS:
        return (
            f"with cudagraph_mode={graphs}, whose graphs take no steps with drafts. Add "
            "cudagraph_mode=FULL to --compilation-config"
        )
    return None
