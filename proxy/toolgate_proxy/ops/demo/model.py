"""The demo model: a very small model in the distribution toolgate-demo-model, extra [demo]."""

from __future__ import annotations

import json
from pathlib import Path

NAME = "toolgate-demo"


def directory() -> Path | None:
    """Return the directory of the demo model, or None if its distribution is not installed."""
    try:
        import toolgate_demo_model
    except ModuleNotFoundError:
        return None
    return toolgate_demo_model.path()


def is_shipped(model: str) -> bool:
    return Path(model).resolve() == directory()


# All tokens of a random model are equally likely, so it rarely ends a string or a response. This
# bias makes tokens that end something more likely. It cannot make the model emit a masked token.
CLOSERS = {"</think>": 6.0, "<|im_end|>": 7.5, '"': 9.0, "}": 7.5, '"}': 8.0, '",': 8.0, '"]': 8.0}


def closers(model: Path) -> dict[str, float]:
    """Return a `logit_bias` for tokens that end strings, objects and responses. Their ids are read
    from the model directory's tokenizer.json."""
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = dict(tokenizer["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    return {str(ids[text]): bias for text, bias in CLOSERS.items() if text in ids}
