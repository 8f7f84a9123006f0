"""The model of a start, and the start's progress: the download, then the phases in vLLM's log.

vLLM reports a directory that does not exist half a minute later, as an invalid id, and downloads
without output. So paths are checked before the start, and the download is seen from the growth of
Hugging Face's cache.

A terminal has one line that changes, with a bar while the progress is known. Elsewhere, as in a
log file, each phase is a line.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from .. import CommandFailed

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?(?::[\w.-]+)?")
"""`name` or `owner/name`; with `:` the quantization of a GGUF model."""
MODEL_FILES = ("config.json", "params.json", "*.gguf")
"""One of these is in the directory of a model of Hugging Face, of Mistral, or of llama.cpp."""


def check_model(model: str) -> None:
    """Raise CommandFailed for a path without a model. Ids and URLs are not looked up."""
    path = Path(model).expanduser()
    if path.is_dir():
        if not any(any(path.glob(name)) for name in MODEL_FILES):
            raise CommandFailed(f"The directory {model} contains no model: it has no config.json.")
    elif path.exists():
        if path.suffix != ".gguf":
            raise CommandFailed(f"{model} is a file. Name the directory that contains the model.")
    elif "://" not in model and not is_hub_id(model):
        raise CommandFailed(
            f"The model {model} does not exist. Name a directory that contains a model, or a "
            "Hugging Face model id such as Qwen/Qwen3-8B."
        )


def is_hub_id(model: str) -> bool:
    """Return whether vLLM can look for it on Hugging Face."""
    return HUB_ID.fullmatch(model) is not None and not Path(model).exists()


@dataclass(frozen=True)
class Phase:
    name: str
    percent: float | None = None
    detail: str = ""


PAUSE = 5.0
"""Seconds without new bytes after which the download counts as ended."""


class Download:
    """`look` returns None while nothing is downloaded."""

    def __init__(self, model: str) -> None:
        self._folder = cache_folder(model) if is_hub_id(model) else None
        self._last = self._size()
        self._grew_at: float | None = None

    def look(self) -> Phase | None:
        """Return the phase if bytes have arrived lately."""
        size, now = self._size(), time.monotonic()
        if size > self._last:
            self._grew_at = now
        self._last = size
        if self._grew_at is None or now - self._grew_at > PAUSE:
            return None
        return Phase("downloading", None, gigabytes(size))

    def _size(self) -> int:
        """Return the bytes of the files in the cache, complete or not."""
        size = 0
        with suppress(OSError):
            for entry in os.scandir(self._folder / "blobs") if self._folder else ():
                with suppress(OSError):
                    size += entry.stat().st_size
        return size


def cache_folder(model: str) -> Path:
    """Return where huggingface_hub stores the model."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    home = Path(os.environ.get("HF_HOME") or caches / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    return hub.expanduser() / f"models--{model.partition(':')[0].replace('/', '--')}"


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"


MAX_READ = 1_000_000
"""Bytes of the log that one look reads. Only the last lines decide."""
PATTERNS = {
    r"Loading \S+ checkpoint shards: +(?P<percent>\d+)%.*\| (?P<detail>\d+/\d+)": "loading weights",
    r"Prefetching checkpoint files: (?P<percent>\d+)%": "reading weights",
    r"Capturing CUDA graphs?.*?: +(?P<percent>\d+)%": "capturing CUDA graphs",
    r"Resolved architecture: (?P<detail>\w+)": "configuring",
    r"Initializing a V1 LLM engine": "starting the engine",
    r"Starting to load model": "loading the model",
    r"Loading weights took|Model loading took": "loaded the weights",
    r"Warming up model for the compilation|torch\.compile|Dynamo bytecode": "compiling",
    r"KV cache size: (?P<detail>[\d,]+ tokens)": "KV cache ready",
    r"init engine .*took": "engine ready, starting the server",
    r"Application startup complete|Starting vLLM server": "server starting",
}
"""Of vLLM 0.31 to 0.33. For each line the first pattern that it contains."""
NOT_A_PHASE = re.compile(r"WARNING|disabling torch\.compile|TORCH_COMPILE_DISABLE")


class LogFollower:
    """Reads what was added to a log, and remembers the last phase."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = 0
        self._rest = ""
        self._phase: Phase | None = None

    def look(self) -> Phase | None:
        with suppress(OSError), self._log.open("rb") as file:
            file.seek(self._offset)
            added = file.read(MAX_READ)
            self._offset += len(added)
            # tqdm writes over its line with \r.
            text = self._rest + added.decode(errors="replace").replace("\r", "\n")
            whole, _, self._rest = text.rpartition("\n")
            for line in whole.split("\n"):
                self._phase = phase_of(line) or self._phase
        return self._phase


def phase_of(line: str) -> Phase | None:
    """Return None for a line that begins no phase."""
    if NOT_A_PHASE.search(line):
        return None
    for pattern, name in PATTERNS.items():
        if found := re.search(pattern, line):
            values = found.groupdict()
            percent = values.get("percent")
            return Phase(name, float(percent) if percent else None, values.get("detail") or "")
    return None


Look = Callable[[], Phase | None]
BAR_WIDTH = 24


class StartDisplay:
    """Context manager. `looks`: sources of the phase; the first that has one decides."""

    def __init__(
        self, console: Console, name: str, began: float, looks: Sequence[Look] = ()
    ) -> None:
        """`began`: monotonic time at which the stack began to start."""
        self._console, self._name, self._began, self._looks = console, name, began, looks
        self._phase = ""
        self._status = console.status(f"starting {name}")

    def __enter__(self) -> StartDisplay:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def update(self) -> None:
        phase = next((found for look in self._looks if (found := look()) is not None), None)
        seconds = round(time.monotonic() - self._began)
        text = f"{self._name}: {phase.name} {phase.detail}".rstrip() if phase else ""
        if self._console.is_terminal:
            bar = ""
            if phase is not None and phase.percent is not None:
                bar = ("━" * round(phase.percent / 100 * BAR_WIDTH)).ljust(BAR_WIDTH) + " "
            self._status.update(f"{escape(text or f'starting {self._name}')} {bar}{seconds} s")
        elif phase is not None and phase.name != self._phase:
            self._phase = phase.name
            self._console.print(f"{seconds:>4} s  {text}", markup=False, soft_wrap=True)
