"""The display of a start, in a terminal and in a log file."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable

from rich.console import Console

from toolgate_proxy.stack.progress.display import StartDisplay
from toolgate_proxy.stack.progress.phases import Phase

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
