"""The model of a start. vLLM reports a directory that does not exist half a minute later, as an
invalid id, so paths are checked before."""

from __future__ import annotations

import re
from pathlib import Path

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
    elif "://" not in model and HUB_ID.fullmatch(model) is None:
        raise CommandFailed(
            f"The model {model} does not exist. Name a directory that contains a model, or a "
            "Hugging Face model id such as Qwen/Qwen3-8B."
        )
