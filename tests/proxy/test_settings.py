from __future__ import annotations

from toolgate_core.errors import SchemaTooComplex
from toolgate_core.wire import GrammarVerdict
from toolgate_proxy.settings import Settings

SETTINGS = Settings(grammar_ttl=1000, grammar_refusal_ttl=100, grammar_limit_ttl=10)


def test_a_refusal_for_cost_is_believed_for_less() -> None:
    ready = GrammarVerdict(key="k", status="ready")
    refused = GrammarVerdict(key="k", status="refused")
    too_dear = refused.model_copy(update={"code": SchemaTooComplex.code})
    assert SETTINGS.verdict_ttl(ready) == 1000
    assert SETTINGS.verdict_ttl(refused) == 100
    assert SETTINGS.verdict_ttl(too_dear) == 10
