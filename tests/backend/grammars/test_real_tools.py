"""The schemas of real tools: an engine holds each of BFCL, and verdicts without a model are those
of a model's engines."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest

from tests.support.dialects.model import DialectModel
from tests.support.effort import repeats
from tests.support.schemas.suites import FORMS, SCHEMAS, real_tools
from tests.support.shared_data import DATA
from toolgate_backend.errors import GrammarRefused
from toolgate_backend.grammars.engines.engine import CompiledGrammar
from toolgate_backend.grammars.offline import verdicts
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.tools import Tool, parse_tools
from toolgate_core.wire import GrammarVerdict

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


def answer(verdict: GrammarVerdict) -> tuple[object, ...]:
    return verdict.status, verdict.code, verdict.pointer, verdict.residual


@pytest.mark.exhaustive
@pytest.mark.skipif(not SCHEMAS.exists(), reason="needs the schemas below $TOOLGATE_SHARED")
@pytest.mark.parametrize("name", FORMS)
def test_verdicts_without_a_model(name: str) -> None:
    tools = real_tools(repeats(29, nightly=1))
    dialect = DIALECTS[name]
    compiler = DialectModel(dialect, mark_texts(dialect)).compiler
    live = [
        compiler.compile("key", tool["name"], canonical_json(tool["parameters"])).verdict
        for tool in tools
    ]
    differing = [
        (tool["parameters"], answer(one), answer(other))
        for tool, one, other in zip(tools, live, verdicts(name, tools), strict=True)
        if answer(one) != answer(other)
    ]
    assert not differing
    assert {each.status for each in live} >= {"ready"}
