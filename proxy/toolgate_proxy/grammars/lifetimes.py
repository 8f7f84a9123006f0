"""How long a backend's verdict on a grammar is believed, in seconds."""

from __future__ import annotations

from toolgate_core.errors import SchemaTooComplex
from toolgate_core.wire import GrammarVerdict

GRAMMAR_TTL = 7 * 86_400
"""After its last use. A grammar that is not there is compiled again, in milliseconds."""
REFUSAL_TTL = 600
"""Of a schema. A new version of the backend may accept it."""
LIMIT_TTL = 60
"""Of a schema that exceeded the limits on compile time or memory, which may compile on a less busy
machine."""


def verdict_ttl(verdict: GrammarVerdict) -> float:
    if verdict.status == "ready":
        return GRAMMAR_TTL
    return LIMIT_TTL if verdict.code == SchemaTooComplex.code else REFUSAL_TTL
