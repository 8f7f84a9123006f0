"""The dialect of a model directory, recognised as the backend does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolgate_core.dialects.recognition import recognise
from toolgate_core.dialects.registry import PLAIN

from .finding import Finding

TOPIC = "dialect"


def check(model: Path) -> Iterator[Finding]:
    try:
        tokens, template = _added_tokens(model), _template(model)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"the tokenizer in {model} can't be read ({type(error).__name__}: {error})"
        yield Finding(TOPIC, text, "problem")
        return
    found = recognise(tokens, template)
    text = f"{found.dialect.name}: {found.reason}"
    yield Finding(TOPIC, text, "note" if found.dialect is PLAIN else "ok")
    for warning in found.warnings:
        yield Finding(TOPIC, warning, "note")


def _added_tokens(model: Path) -> list[str]:
    tokens: list[dict[str, Any]] = []
    if (model / "tokenizer.json").exists():
        tokens = _json(model / "tokenizer.json")["added_tokens"]
    else:
        tokens = list(_json(model / "tokenizer_config.json")["added_tokens_decoder"].values())
    return [str(token["content"]) for token in tokens]


def _template(model: Path) -> str | None:
    """The text of the chat template, of all of them if there are several by name."""
    files = sorted([*model.glob("chat_template.jinja"), *model.glob("chat_templates/*.jinja")])
    if files:
        return "\n".join(file.read_text(encoding="utf-8") for file in files)
    path = model / "tokenizer_config.json"
    given = _json(path).get("chat_template") if path.exists() else None
    if isinstance(given, list):
        return "\n".join(str(each["template"]) for each in given)
    return given if isinstance(given, str) else None


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
