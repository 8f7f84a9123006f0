"""The progress of a start: the phase of vLLM, from its log (vLLM 0.31 to 0.33), and its display.

A terminal has one line that changes, with a bar while the progress is known. Elsewhere, as in a
log file, each phase is a line.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

MAX_READ = 1_000_000
"""Bytes of the log that one look reads. Only the last lines decide."""


@dataclass(frozen=True)
class Phase:
    name: str
    percent: float | None = None
    detail: str = ""


PATTERNS = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (
            r"Loading \S+ checkpoint shards: +(?P<percent>\d+)%.*\| (?P<detail>\d+/\d+)",
            "loading weights",
        ),
        (r"Prefetching checkpoint files: (?P<percent>\d+)%", "reading weights"),
        (r"Capturing CUDA graphs?.*?: +(?P<percent>\d+)%", "capturing CUDA graphs"),
        (r"Resolved architecture: (?P<detail>\w+)", "configuring"),
        (r"Initializing a V1 LLM engine", "starting the engine"),
        (r"Starting to load model", "loading the model"),
        (r"Loading weights took|Model loading took", "loaded the weights"),
        (r"Warming up model for the compilation|torch\.compile|Dynamo bytecode", "compiling"),
        (r"KV cache size: (?P<detail>[\d,]+ tokens)", "KV cache ready"),
        (r"init engine .*took", "engine ready, starting the server"),
        (r"Application startup complete|Starting vLLM server", "server starting"),
    )
)
"""For each line the first pattern that it contains."""
NOT_A_PHASE = re.compile(r"WARNING|disabling torch\.compile|TORCH_COMPILE_DISABLE")


class LogFollower:
    """Reads what was added to a log, and remembers the last phase."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = 0
        self._rest = ""
        self.phase: Phase | None = None

    def look(self) -> Phase | None:
        try:
            with self._log.open("rb") as file:
                file.seek(self._offset)
                added = file.read(MAX_READ)
        except OSError:
            return self.phase
        self._offset += len(added)
        # tqdm writes over its line with \r.
        text = self._rest + added.decode(errors="replace").replace("\r", "\n")
        whole, _, self._rest = text.rpartition("\n")
        for line in whole.split("\n"):
            self.phase = phase_of(line) or self.phase
        return self.phase


def phase_of(line: str) -> Phase | None:
    """Return None for a line that begins no phase."""
    if NOT_A_PHASE.search(line):
        return None
    for pattern, name in PATTERNS:
        found = pattern.search(line)
        if found is not None:
            values = found.groupdict()
            percent = values.get("percent")
            return Phase(name, float(percent) if percent else None, values.get("detail") or "")
    return None


Look = Callable[[], Phase | None]
BAR_WIDTH = 24


class _Bar(ProgressColumn):
    """Nothing while the progress is not known."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = BarColumn(bar_width=BAR_WIDTH)

    def render(self, task: Task) -> object:  # type: ignore[override]
        return self._bar.render(task) if task.total else Text("")


class StartDisplay:
    """Context manager. `looks`: sources of the phase; the first that has one decides."""

    def __init__(
        self, console: Console, name: str, began: float, looks: Sequence[Look] = ()
    ) -> None:
        """`began`: monotonic time at which the stack began to start."""
        self._console = console
        self._name = name
        self._began = began
        self._looks = looks
        self._phase = ""
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            _Bar(),
            TextColumn("{task.fields[seconds]} s"),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task(f"starting {name}", total=None, seconds=self._seconds)

    def __enter__(self) -> StartDisplay:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def update(self) -> None:
        phase = next((found for look in self._looks if (found := look()) is not None), None)
        if not self._console.is_terminal:
            if phase is not None and phase.name != self._phase:
                self._phase = phase.name
                line = f"{self._seconds:>4} s  {self._name}: {self._text(phase)}"
                self._console.print(line, markup=False, soft_wrap=True)
            return
        self._progress.update(
            self._task,
            description=f"{self._name}: {self._text(phase)}" if phase else f"starting {self._name}",
            total=100 if phase is not None and phase.percent is not None else None,
            completed=(phase.percent or 0) if phase is not None else 0,
            seconds=self._seconds,
        )

    @property
    def _seconds(self) -> int:
        return round(time.monotonic() - self._began)

    @staticmethod
    def _text(phase: Phase) -> str:
        return f"{phase.name} {phase.detail}".strip()
