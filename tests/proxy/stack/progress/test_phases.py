"""Phases of a start, from lines as vLLM 0.32 writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolgate_proxy.stack.progress.phases import LogFollower, Phase, phase_of

ENGINE = "(EngineCore pid=6024) INFO 11-25 04:35:42"
SHARDS = "Loading safetensors checkpoint shards:"


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        (
            "(APIServer pid=5) INFO 11-25 04:35:30 [model.py:733] Resolved architecture: Qwen3",
            Phase("configuring", detail="Qwen3"),
        ),
        (
            f"{ENGINE} [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='x'",
            Phase("starting the engine"),
        ),
        (
            f"{ENGINE} [cpu_model_runner.py:68] Starting to load model x...",
            Phase("loading the model"),
        ),
        (
            f"{SHARDS}  50% Completed | 2/4 [00:03<00:03,  1.5s/it]",
            Phase("loading weights", 50, "2/4"),
        ),
        (
            "Capturing CUDA graphs (mixed, PIECEWISE):  37%|### | 25/67 [00:01<00:03]",
            Phase("capturing CUDA graphs", 37),
        ),
        (
            f"{ENGINE} [kv_cache_utils.py:2327] CPU KV cache size: 262,144 tokens, Maximum",
            Phase("KV cache ready", detail="262,144 tokens"),
        ),
        (
            f"{ENGINE} [backends.py:5] Dynamo bytecode transform time: 3.2 s",
            Phase("compiling"),
        ),
        (f"{ENGINE} [vllm.py:1703] Enforce eager set, disabling torch.compile", None),
        ("(APIServer pid=5) WARNING 11-25 04:35:30 [x.py:1] torch.compile is slow", None),
        ("", None),
    ],
)
def test_lines_of_vllm_are_phases(line: str, phase: Phase | None) -> None:
    assert phase_of(line) == phase


def test_a_log_is_followed_while_it_grows(tmp_path: Path) -> None:
    log = tmp_path / "backend.log"
    follower = LogFollower(log)
    assert follower.look() is None
    with log.open("w") as file:
        file.write(f"{SHARDS}   0% Completed | 0/2 [00:00<?, ?it/s]\r")
        file.write(f"{SHARDS}  50% Completed | 1/2 [00:03<00:03]\r{SHARDS} 100% Comp")
        file.flush()
        assert follower.look() == Phase("loading weights", 50, "1/2")
        file.write("leted | 2/2 [00:06<00:00]\n\nother text\n")
        file.flush()
        assert follower.look() == Phase("loading weights", 100, "2/2")
        assert follower.look() == Phase("loading weights", 100, "2/2")
