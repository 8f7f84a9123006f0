"""The model of a stack: a directory or file that exists, or the id of a model on Hugging Face.

vLLM reports a directory that does not exist half a minute later, as an invalid id, and downloads
without output. So paths are checked before the start, and the download is seen from the growth of
Hugging Face's cache. Its size is asked from the hub in a thread; without an answer, only the
downloaded bytes are known.
"""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from .processes import StackFailed
from .progress import Phase

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?(?::[\w.-]+)?")
"""`name` or `owner/name`; with `:` the quantization of a GGUF model."""
CONFIGURATIONS = ("config.json", "params.json")
"""Of Hugging Face's and of Mistral's models."""


class NoModel(StackFailed):
    """There is no model at a path."""


def check_model(model: str) -> None:
    """Raise NoModel for a path without a model. Ids and URLs are not looked up."""
    path = Path(model).expanduser()
    if path.is_dir():
        if not any((path / name).exists() for name in CONFIGURATIONS) and not any(
            path.glob("*.gguf")
        ):
            raise NoModel(f"The directory {model} contains no model: it has no config.json.")
    elif path.exists():
        if path.suffix != ".gguf":
            raise NoModel(f"{model} is a file. Name the directory that contains the model.")
    elif "://" not in model and not is_hub_id(model):
        raise NoModel(
            f"The model {model} does not exist. Name a directory that contains a model, or a "
            "Hugging Face model id such as Qwen/Qwen3-8B."
        )


def is_hub_id(model: str) -> bool:
    """Return whether vLLM can look for it on Hugging Face."""
    return HUB_ID.fullmatch(model) is not None and not Path(model).exists()


WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")
"""In the order in which vLLM prefers them; it downloads one kind."""
OFFLINE = ("1", "true", "yes", "on")
TIMEOUT = 10.0
PAUSE = 5.0
"""Seconds without new bytes after which the download counts as ended."""


class Download:
    """`look` returns None while nothing is downloaded."""

    def __init__(self, model: str) -> None:
        self._folder = cache_folder(model) if is_hub_id(model) else None
        self._last = self._size()
        self._grew_at: float | None = None
        self._total: int | None = None
        if self._folder is not None and not self._is_offline():
            threading.Thread(target=self._ask, args=(model,), daemon=True).start()

    def look(self) -> Phase | None:
        """Return the phase if bytes have arrived lately."""
        if self._folder is None:
            return None
        size, now = self._size(), time.monotonic()
        if size > self._last:
            self._grew_at = now
        self._last = size
        if self._grew_at is None or now - self._grew_at > PAUSE:
            return None
        total = self._total
        if total is None or total < size:
            return Phase("downloading", None, gigabytes(size))
        return Phase("downloading", 100 * size / total, f"{gigabytes(size)} of {gigabytes(total)}")

    def _size(self) -> int:
        """Return the bytes of the files in the cache, complete or not."""
        if self._folder is None:
            return 0
        size = 0
        with suppress(OSError):
            for entry in os.scandir(self._folder / "blobs"):
                with suppress(OSError):
                    size += entry.stat().st_size
        return size

    def _ask(self, model: str) -> None:
        if find_spec("huggingface_hub") is None:
            return
        with suppress(Exception):  # the size is not needed for the start
            from huggingface_hub import HfApi

            files = HfApi().model_info(model, files_metadata=True, timeout=TIMEOUT).siblings or []
            sizes = {each.rfilename: each.size or 0 for each in files}
            self._total = total_size(sizes)

    @staticmethod
    def _is_offline() -> bool:
        return os.environ.get("HF_HUB_OFFLINE", "").lower() in OFFLINE


def total_size(sizes: dict[str, int]) -> int:
    """Return the bytes that vLLM downloads of a repository with files of these `sizes`: the weights
    of the first kind that it has, and all files that are not weights."""
    kind = next((each for each in WEIGHTS if any(name.endswith(each) for name in sizes)), "")
    return sum(
        size
        for name, size in sizes.items()
        if not name.endswith(WEIGHTS) or (kind and name.endswith(kind))
    )


def cache_folder(model: str) -> Path:
    """Return where huggingface_hub stores the model."""
    home = os.environ.get("HF_HOME") or str(
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    )
    hub = os.environ.get("HF_HUB_CACHE") or str(Path(home) / "hub")
    name = model.partition(":")[0].replace("/", "--")
    return Path(hub).expanduser() / f"models--{name}"


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"
