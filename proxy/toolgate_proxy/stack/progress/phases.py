"""The phase of a vLLM server that starts, from its log (vLLM 0.31 to 0.33)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

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
    """None for a line that begins no phase."""
    if NOT_A_PHASE.search(line):
        return None
    for pattern, name in PATTERNS:
        found = pattern.search(line)
        if found is not None:
            values = found.groupdict()
            percent = values.get("percent")
            return Phase(name, float(percent) if percent else None, values.get("detail") or "")
    return None
