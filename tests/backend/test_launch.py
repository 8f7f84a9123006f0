from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from toolgate_backend import launch, plugin
from toolgate_backend.adapters import lifetimes
from toolgate_backend.errors import IncompatibleServer

OTHER_SERVERS = [
    ([], {"VLLM_USE_RUST_FRONTEND": "1"}, r"Rust front end .* Unset VLLM_USE_RUST_FRONTEND\."),
    (["--grpc"], {}, r"--grpc is not supported: .* Remove --grpc\."),
    (["--grpc-port", "5000"], {}, r"--grpc-port is not supported: .* Remove --grpc-port\."),
    (["--grpc_port=5000"], {}, r"--grpc-port is not supported"),
]
"""vLLM's servers without endpoint plug-ins."""
PROCESSOR = {"TOOLGATE_ADAPTER": "logits_processor"}
DRAFTS = {"VLLM_USE_V2_MODEL_RUNNER": "1", "TOOLGATE_FORCED_DRAFTS": "8"}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    flags: list[str] = []
    monkeypatch.setattr(launch.vllm_cli, "main", flags.extend)
    monkeypatch.setattr(launch.os, "environ", {})
    monkeypatch.setattr(launch, "_text_config", lambda model: None)
    monkeypatch.setattr(lifetimes, "engine_died", threading.Event())  # others may have set it
    return flags


def run(monkeypatch: pytest.MonkeyPatch, flags: list[str], **environment: str) -> None:
    monkeypatch.setattr(launch.os, "environ", environment)
    launch.main(["model", *flags])


@pytest.mark.parametrize(
    ("flags", "environment", "says"),
    [
        *OTHER_SERVERS,
        (["--speculative-config", "{}"], PROCESSOR, "TOOLGATE_ADAPTER=structured_output"),
        (["--speculative_config={}"], PROCESSOR, "TOOLGATE_ADAPTER=structured_output"),
        (["--speculative-config.method=ngram"], PROCESSOR, "TOOLGATE_ADAPTER=structured_output"),
        (["--spec-method", "ngram"], PROCESSOR, "TOOLGATE_ADAPTER=structured_output"),
        (["--logits-processors", "a:B"], PROCESSOR, "Remove the flag"),
        ([], PROCESSOR | {"VLLM_USE_V2_MODEL_RUNNER": "1"}, "Unset VLLM_USE"),
        (["--speculative-config.method=ngram"], DRAFTS, "Remove --speculative-config"),
        ([], DRAFTS | PROCESSOR, "Unset one of the two"),
        ([], DRAFTS | {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "V1 model runner"),
    ],
)
def test_servers_that_cannot_enforce_are_rejected(
    started: list[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    environment: dict[str, str],
    says: str,
) -> None:
    """They lack endpoint plug-ins or logits processors, or vLLM cannot verify forced drafts."""
    with pytest.raises(launch.LaunchError, match=says):
        run(monkeypatch, flags, **environment)
    assert not started


def test_probes_are_left_out_of_the_log_unless_flags_say_otherwise(
    started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = "--disable-access-log-for-endpoints"
    run(monkeypatch, [flag, "/none"])
    at = [index for index, each in enumerate(started) if each == flag]
    assert "/health" in started[at[0] + 1]
    assert "/v1/toolgate/info" in started[at[0] + 1]
    assert started[at[-1] + 1] == "/none"


@pytest.mark.parametrize(
    ("flags", "key", "host"),
    [
        ([], "", "127.0.0.1"),
        (["--host=0.0.0.0"], "", "0.0.0.0"),
        ([], "key", None),
        (["--api_key", "key"], "", None),
        (["--config", "file.yaml"], "", None),
    ],
)
def test_a_backend_without_a_key_listens_on_this_machine_unless_told_otherwise(
    capsys: pytest.CaptureFixture[str], flags: list[str], key: str, host: str | None
) -> None:
    added = launch.address_flags(flags, {"VLLM_API_KEY": key})
    assert added == ([] if host is None else ["--host", host])
    assert (f"everyone who reaches {host}" in capsys.readouterr().out) is (host is not None)


@pytest.mark.parametrize("value", ["", "0", " 0 ", "00"])
def test_the_rust_front_end_may_be_switched_off(
    started: list[str], monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    run(monkeypatch, ["--port", "1"], VLLM_USE_RUST_FRONTEND=value)
    assert started[:2] == ["serve", "model"]


@pytest.mark.parametrize(("flags", "environment", "says"), OTHER_SERVERS)
def test_the_plugin_stops_a_server_without_endpoint_plugins(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], environment: dict[str, str], says: str
) -> None:
    """vLLM was started without the launcher."""
    for name, value in {"VLLM_PLUGINS": "toolgate", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(plugin.sys, "argv", ["vllm", "serve", "model", *flags])
    with pytest.raises(IncompatibleServer, match=says):
        plugin.register()


def test_the_plugin_ignores_other_programs_and_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "toolgate")
    monkeypatch.setattr(plugin.sys, "argv", ["program", "--grpc"])
    plugin.register()
    monkeypatch.delenv("VLLM_PLUGINS")  # the server does not use Toolgate
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    monkeypatch.setattr(plugin.sys, "argv", ["vllm", "serve", "model", "--grpc"])
    plugin.register()


@pytest.mark.parametrize(
    ("flags", "environment"),
    [
        (["--speculative-config", "{}"], {}),
        (["-sc", "{}"], {}),
        ([], {"VLLM_USE_V2_MODEL_RUNNER": "1"}),
        ([], {"TOOLGATE_ADAPTER": "structured_output"}),
    ],
)
def test_structured_output_is_used_where_logits_processors_cannot_run(
    started: list[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    environment: dict[str, str],
) -> None:
    run(monkeypatch, flags, **environment)
    assert "--logits-processors" not in started
    assert launch.os.environ["TOOLGATE_ADAPTER"] == "structured_output"
    runner = launch.os.environ.get("VLLM_USE_V2_MODEL_RUNNER")
    assert runner == environment.get("VLLM_USE_V2_MODEL_RUNNER")  # vLLM's own choice stands


def test_forced_drafts_are_configured_in_vllm(
    started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, [], VLLM_USE_V2_MODEL_RUNNER="1", TOOLGATE_FORCED_DRAFTS="6")
    at = started.index("--speculative-config")
    assert json.loads(started[at + 1])["num_speculative_tokens"] == 6
    assert "--logits-processors" not in started
    assert launch.os.environ["TOOLGATE_ADAPTER"] == "structured_output"


def test_without_triton_the_v1_runner_and_logits_processor_are_set(
    started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "on_cpu", lambda: True)
    launch.main(["model", "--port", "1"])
    assert started[:2] == ["serve", "model"]
    assert started[started.index("--logits-processors") + 1] == launch.PROCESSOR
    assert launch.os.environ["TOOLGATE_ADAPTER"] == "logits_processor"
    assert launch.os.environ["VLLM_PLUGINS"] == "toolgate"
    assert launch.os.environ["VLLM_USE_V2_MODEL_RUNNER"] == "0"


def test_with_triton_the_runner_is_not_set(
    started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "on_cpu", lambda: False)
    launch.main(["model"])
    assert launch.os.environ["TOOLGATE_ADAPTER"] == "structured_output"
    assert "VLLM_USE_V2_MODEL_RUNNER" not in launch.os.environ


def test_other_vllm_plugins_are_kept() -> None:
    assert (
        launch.environment({"VLLM_PLUGINS": "mine"}, "structured_output")["VLLM_PLUGINS"]
        == "mine,toolgate"
    )


@pytest.mark.parametrize("flags", [["--max-model-len", "4096"], ["--max_model_len=4096"]])
def test_chunked_prefill_is_disabled_on_cpu(started: list[str], flags: list[str]) -> None:
    if not launch.on_cpu():
        pytest.skip("the installed vLLM is not its CPU build")
    launch.main(["model", *flags])
    assert started[started.index("--max-num-batched-tokens") + 1] == "4096"
    assert "--no-enable-chunked-prefill" in started


@pytest.mark.parametrize(("positions", "length"), [(2048, 2048), (40_960, 8192)])
def test_model_length_on_cpu_is_limited_to_the_models_positions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, positions: int, length: int
) -> None:
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
def test_kv_cache_on_cpu_fits_whole_contexts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: list[str], cache: str | None
) -> None:
    monkeypatch.setattr(launch, "on_cpu", lambda: True)
    # Qwen3-0.6B's.
    shape = {"num_hidden_layers": 28, "num_key_value_heads": 8, "head_dim": 128}
    config = {"model_type": "qwen3", "max_position_embeddings": 40_960, **shape}
    (tmp_path / "config.json").write_text(json.dumps(config))
    ours = launch.cpu_flags(str(tmp_path), flags)
    assert launch._flag_value(ours, "--kv-cache-memory-bytes") == cache


def on_cores(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    if not launch.on_cpu():
        pytest.skip("the installed vLLM is not its CPU build")
    monkeypatch.setattr(launch, "usable_cores", lambda: count)


def test_few_cores_use_one_process_and_one_thread(
    started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cores(monkeypatch, 2)
    launch.main(["model", "--port", "1"])
    assert started[started.index("--distributed-executor-backend") + 1] == launch.UNIPROC
    assert launch.os.environ["OMP_NUM_THREADS"] == "1"


def test_many_cores_keep_the_vllm_defaults(
    started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cores(monkeypatch, 16)
    launch.main(["model", "--port", "1"])
    assert "--distributed-executor-backend" not in started
    assert "OMP_NUM_THREADS" not in launch.os.environ


def test_tensor_parallel_does_not_use_one_process(
    started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cores(monkeypatch, 2)
    launch.main(["model", "-tp", "2"])
    assert "--distributed-executor-backend" not in started
