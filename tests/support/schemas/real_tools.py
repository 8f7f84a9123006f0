"""The input schemas of real tools, and the verdicts on them in several forms of calls."""

from __future__ import annotations

import gzip
import json
from typing import Any

from tests.support.shared_data import DATA
from toolgate_backend.grammars.offline import verdicts
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.canonical import canonical_parameters
from toolgate_core.wire import GrammarVerdict

SCHEMAS = DATA / "tool-schemas.jsonl.gz"
FORMS = ("qwen3", "glm47", "qwen3_coder", "deepseek_v32", "minimax_m3", "gemma4", "lfm2_5")


def real_tools(step: int = 1) -> list[dict[str, Any]]:
    """Every `step`-th tool whose schema can be read, as name and canonical parameters."""
    tools = []
    with gzip.open(SCHEMAS, "rt", encoding="utf-8") as lines:
        for line in [*lines][::step]:
            try:
                parameters = canonical_parameters(json.loads(line)["schema"])
            except ToolgateError:
                continue
            tools.append({"name": "tool", "parameters": parameters})
    return tools


def verdicts_by_form() -> dict[str, list[GrammarVerdict]]:
    tools = real_tools()
    return {name: verdicts(name, tools) for name in FORMS}
