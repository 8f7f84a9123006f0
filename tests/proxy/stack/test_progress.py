"""The progress of a start: phases in vLLM's log, and what terminals and log files show of them."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from toolgate_proxy.stack.progress import LogFollower, Phase, StartDisplay, phase_of

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


LOADING = [Phase("loading weights", percent, f"{at}/2") for at, percent in ((1, 50), (2, 100))]


def replay(phases: list[Phase | None]) -> Callable[[], Phase | None]:
    """One phase for each look."""
    left = iter(phases)
    return lambda: next(left)


def shown(phases: list[Phase | None], *, terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=80, _environ={})
    began = time.monotonic() - 75
    with StartDisplay(console, "backend", began, (replay(phases),)) as display:
        for _ in phases:
            display.update()
            if terminal:
                display._progress.refresh()
    return out.getvalue()


def test_a_log_file_has_one_line_for_each_phase() -> None:
    lines = shown([None, *LOADING, Phase("compiling")], terminal=False).splitlines()
    assert lines == ["  75 s  backend: loading weights 1/2", "  75 s  backend: compiling"]


def test_a_terminal_has_the_phase_the_time_and_a_bar_while_progress_is_known() -> None:
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown([None, *LOADING], terminal=True))
    frames = [frame.strip() for frame in re.split(r"[\r\n]", text) if frame.strip()]
    assert any("starting backend" in frame and "75 s" in frame for frame in frames)
    [half] = {frame[2:] for frame in frames if "1/2" in frame}
    assert half.startswith("backend: loading weights 1/2 ")
    assert "━" in half
    assert not any("━" in frame for frame in frames if "starting backend" in frame)


def test_the_first_source_with_a_phase_decides() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80)
    looks = (replay([Phase("downloading"), None]), replay([Phase("loading weights")]))
    with StartDisplay(console, "backend", time.monotonic(), looks) as display:
        display.update()
        display.update()
    assert [line.split(": ")[1] for line in out.getvalue().splitlines()] == [
        "downloading",
        "loading weights",
    ]
