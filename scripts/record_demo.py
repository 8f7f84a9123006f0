"""Run the demo, and write its recording: docs/guide/demo.svg, and as text docs/guide/demo.txt.

`make docs` runs it. The figures are those of this run. Sampling depends on how vLLM batches
requests, so another run may have slightly different ones for the unconstrained model.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

sys.path[:0] = [str(Path(__file__).parent)]

from terminal_svg import Line, draw  # noqa: E402

ROOT = Path(__file__).parents[1]
SVG, TEXT = ROOT / "docs" / "guide" / "demo.svg", ROOT / "docs" / "guide" / "demo.txt"
COLUMNS, ROWS = 100, 34
MAX_BYTES = 200_000
PORT = "4733"
SHORTEST, LONGEST = 0.07, 0.5
"""Seconds between two lines of the recording. The demo's own pauses are shortened."""
SLOW = 0.3
"""For lines of the comparison, which are printed at once."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhlsu]")
COMPARISON = "samples at temperature"


@dataclass(frozen=True)
class Printed:
    ansi: str
    at: float


def main() -> None:
    demo = record()
    SVG.write_text(picture(demo), encoding="utf-8")
    if SVG.stat().st_size > MAX_BYTES:
        sys.exit(f"{SVG} is larger than {MAX_BYTES} bytes.")
    print(f"wrote {SVG.relative_to(ROOT)}")
    TEXT.write_text(f"{transcript(demo)}\n", encoding="utf-8")
    print(f"wrote {TEXT.relative_to(ROOT)}")


def record() -> list[Printed]:
    """Return the lines that the demo prints. Exits if the demo fails."""
    command = [sys.executable, "-m", "toolgate_proxy", "demo", "--once", "--port", PORT]
    environment = {
        **os.environ,
        "FORCE_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm",
        "PYTHONUNBUFFERED": "1",
    }
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            text = line.decode().rstrip("\r\n")
            lines.append(Printed(text, time.monotonic()))
    if process.returncode:
        print("\n".join(line.ansi for line in lines))
        sys.exit(f"The demo ended with status {process.returncode}.")
    return [Printed(visible(line.ansi), line.at) for line in lines if is_shown(line.ansi)]


def visible(ansi: str) -> str:
    """Return the line without what was erased, and without moves of the cursor."""
    return CONTROL.sub("", re.split(r"\r|\x1b\[2K", ansi)[-1])


def is_shown(ansi: str) -> bool:
    """Of the start, what is ready is shown: paths of logs differ each time."""
    plain = Text.from_ansi(visible(ansi)).plain
    return not plain.startswith(("logs: ", "starting", "stopping"))


def picture(printed: Sequence[Printed]) -> str:
    lines = [Line(Text.from_ansi("\x1b[2m$\x1b[0m make demo"), 0.5)]
    compared = False
    for before, line in zip([printed[0], *printed], printed, strict=False):
        compared = compared or COMPARISON in line.ansi
        pause = min(max(line.at - before.at, SHORTEST), LONGEST)
        seconds = lines[-1].seconds + (SLOW if compared else pause)
        lines.append(Line(Text.from_ansi(line.ansi), round(seconds, 2)))
    title = (
        "The output of make demo: enforced tool calls next to the output of the same model alone"
    )
    return draw(lines, title=title, columns=COLUMNS, rows=ROWS)


def transcript(printed: Sequence[Printed]) -> str:
    return "\n".join(Text.from_ansi(line.ansi).plain.rstrip() for line in printed)


if __name__ == "__main__":
    main()
