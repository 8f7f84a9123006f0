"""The verdicts without a model are those of a model's engines, for the schemas of real tools."""

from __future__ import annotations

import pytest

from tests.support.dialects.model import DialectModel
from tests.support.effort import repeats
from tests.support.schemas.real_tools import FORMS, SCHEMAS, real_tools
from toolgate_backend.grammars.offline import verdicts
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.wire import GrammarVerdict

STEP = repeats(29, nightly=1)


def answer(verdict: GrammarVerdict) -> tuple[object, ...]:
    return verdict.status, verdict.code, verdict.pointer, verdict.residual


@pytest.mark.exhaustive
@pytest.mark.skipif(not SCHEMAS.exists(), reason="needs the schemas below $TOOLGATE_SHARED")
@pytest.mark.parametrize("name", FORMS)
def test_real_schemas(name: str) -> None:
    tools = real_tools(STEP)
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
