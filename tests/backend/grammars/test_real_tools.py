"""Real tool sets (BFCL): every one of them is held by an engine."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest

from tests.support.effort import repeats
from tests.support.shared_data import DATA
from toolgate_backend.errors import GrammarRefused
from toolgate_backend.grammars.engines.engine import CompiledGrammar
from toolgate_core.tools import Tool, parse_tools

BFCL = DATA / "bfcl.jsonl.gz"


@pytest.mark.exhaustive
@pytest.mark.skipif(not BFCL.exists(), reason="needs the BFCL data below $TOOLGATE_SHARED")
def test_real_tools_compile(compile_tool: Callable[[Tool], CompiledGrammar]) -> None:
    tools: dict[str, Tool] = {}
    with gzip.open(BFCL, "rt", encoding="utf-8") as lines:
        for line in lines:
            tools |= {tool.hash: tool for tool in parse_tools(json.loads(line)["tools"])}
    assert len(tools) > 1000
    refused = []
    for tool in [*tools.values()][:: repeats(5, nightly=1)]:
        try:
            compile_tool(tool)
        except GrammarRefused as error:
            refused.append((tool.name, error.reason))
    assert not refused
