"""The quarantine compiles the grammars of dialects whose arguments are not JSON."""

from __future__ import annotations

import pytest

from tests.backend.grammars.quarantine.test_service import AMPLE, running, source
from tests.support.dialects.model import DialectModel
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.wire import ResidualKeyword

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.exhaustive
async def test_the_quarantine_compiles_arguments_in_tags() -> None:
    either = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]}
    schema = {"properties": {"a": {"type": "string"}, "b": either}, "required": ["a"]}
    vocabulary = DialectModel(DIALECTS["qwen3_coder"]).vocabulary
    async with running(vocabulary, AMPLE, workers=1) as quarantine:
        verdict = await quarantine.examine(source(schema))
        content = await quarantine.examine(source(schema, ""))
    assert (verdict.status, verdict.engine) == ("ready", "llguidance")
    assert verdict.least_tokens
    pointer = "/properties/b/anyOf/1/minimum"
    assert verdict.residual == (ResidualKeyword(pointer=pointer, keyword="minimum"),)
    assert (content.status, content.engine) == ("ready", "xgrammar")
