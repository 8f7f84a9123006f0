"""A bias on texts as the `logit_bias` of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def by_token(biases: Mapping[str, float], model: Path) -> dict[str, float]:
    """`logit_bias` by token ID. Texts that are no token of the model are left out."""
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = dict(tokenizer["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    return {str(ids[text]): bias for text, bias in biases.items() if text in ids}
