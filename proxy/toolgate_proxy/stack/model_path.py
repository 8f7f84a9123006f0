"""The model of a stack: a directory or file that exists, or the id of a model on Hugging Face.

vLLM reports a directory that does not exist half a minute later, as an invalid id.
"""

from __future__ import annotations

import re
from pathlib import Path

from .processes import StackFailed

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?(?::[\w.-]+)?")
"""`name` or `owner/name`; with `:` the quantization of a GGUF model."""
CONFIGURATIONS = ("config.json", "params.json")
"""Of Hugging Face's and of Mistral's models."""


class NoModel(StackFailed):
    """There is no model at a path."""


def check_model(model: str) -> None:
    """Raises NoModel for a path without a model. Ids and URLs are not looked up."""
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
    """Whether vLLM can look for it on Hugging Face."""
    return HUB_ID.fullmatch(model) is not None and not Path(model).exists()
