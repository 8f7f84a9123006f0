"""Run the demo, and write its recording: docs/demo.svg, and the transcripts in docs/demo.md.

It starts vLLM twice: with the demo model, and with random weights. The figures are those of these
runs. Sampling depends on how vLLM batches requests, so that another run
may have slightly different ones for the unconstrained model.
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
SVG, PAGE = ROOT / "docs" / "demo.svg", ROOT / "docs" / "demo.md"
RANDOM = ROOT / ".cache" / "models" / "tiny"
COLUMNS, ROWS = 100, 34
MAX_BYTES = 200_000
PORT = "4733"
SHORTEST, LONGEST = 0.07, 0.5
"""Seconds between two lines of the recording. The demo's own pauses are shortened."""
SLOW = 0.3
"""For lines of the comparison, which are printed at once."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhlsu]")
COMPARISON = "samples at temperature"

PAGE_TEXT = """\
# What the demo prints

Recorded by `python scripts/record_demo.py`, with the figures of that run. `alone` is the raw \
output of the same model for the same prompt, without enforcement. A valid call has the form that \
its schema demands. Whether its values are right depends on the model, and this one is very small.

The demo shows tool calls only. The demo model was not trained for `response_format`: with it, the \
answers are valid JSON without meaning. Nor was it trained for long texts: in a string without \
`maxLength` it may repeat itself up to the token limit.

## The demo model: `make demo ARGS=--once`

```text
{demo}
```

## Random weights: `make demo MODEL=tiny-random ARGS=--once`

```text
{random}
```
"""


@dataclass(frozen=True)
class Printed:
    ansi: str
    at: float


def main() -> None:
    demo = record([])
    SVG.write_text(picture(demo), encoding="utf-8")
    if SVG.stat().st_size > MAX_BYTES:
        sys.exit(f"{SVG} is larger than {MAX_BYTES} bytes.")
    print(f"wrote {SVG.relative_to(ROOT)}")
    random = record(["--model", str(RANDOM)])
    PAGE.write_text(page(transcript(demo), transcript(random)), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


def record(arguments: Sequence[str]) -> list[Printed]:
    """The lines that the demo prints. Exits if the demo fails."""
    command = [sys.executable, "-m", "toolgate_proxy", "demo", "--once", "--port", PORT, *arguments]
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
    """The line without what was erased, and without moves of the cursor."""
    return CONTROL.sub("", re.split(r"\r|\x1b\[2K", ansi)[-1])


def is_shown(ansi: str) -> bool:
    """Progress of the start is replaced in a terminal, and paths of logs differ each time."""
    plain = Text.from_ansi(visible(ansi)).plain
    return not plain.startswith(("logs: ", "stopping")) and " starting " not in plain


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


def page(demo: str, random: str) -> str:
    return PAGE_TEXT.replace("{demo}", demo).replace("{random}", random)


if __name__ == "__main__":
    main()
