"""Writing a test model to its directory: complete or not at all, and only if something changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from .tiny_random import FINGERPRINT

Weights = Mapping[str, npt.NDArray[np.float32]]


def write_model(
    out: Path, texts: Mapping[str, str], weights: Callable[[], Weights], version: object
) -> None:
    """Write the model to the directory `out`, which is created or replaced. `texts`: its files by
    name, without the weights. `version`: of the weights; with the texts, it determines whether the
    model is up to date. Raises FileExistsError if `out` has other files."""
    mark = hashlib.sha256(json.dumps([dict(texts), version]).encode()).hexdigest()
    fingerprint = out / FINGERPRINT
    if fingerprint.exists() and fingerprint.read_text() == mark:
        return
    if not fingerprint.exists() and out.exists() and any(out.iterdir()):
        raise FileExistsError(f"{out} has other files. Use another directory.")
    out.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: other processes never see half a model.
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        made = Path(temporary) / "model"
        made.mkdir()
        for name, text in texts.items():
            (made / name).write_text(text)
        save_file(dict(weights()), made / "model.safetensors", metadata={"format": "pt"})
        (made / "model.safetensors").chmod(0o644)
        (made / FINGERPRINT).write_text(mark)
        if out.exists():
            shutil.rmtree(out)
        made.replace(out)
