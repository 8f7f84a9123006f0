"""Displays how long a part of the stack has been starting, and its phase.

A terminal has one line that changes, with a bar while the progress is known. Elsewhere, as in a
log file, each phase is a line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from .phases import Phase

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
