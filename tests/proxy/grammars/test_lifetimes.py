from __future__ import annotations

from toolgate_core.errors import SchemaTooComplex
from toolgate_core.wire import GrammarVerdict
from toolgate_proxy.grammars.lifetimes import verdict_ttl


def test_a_refusal_for_cost_is_believed_for_less() -> None:
    ready = GrammarVerdict(key="k", status="ready")
    refused = GrammarVerdict(key="k", status="refused")
    too_dear = refused.model_copy(update={"code": SchemaTooComplex.code})
    assert verdict_ttl(ready) > verdict_ttl(refused) > verdict_ttl(too_dear) > 0
