"""A stand-in for xgrammar, which needs torch: it compiles all schemas that are chosen for it."""

from __future__ import annotations

from typing import Any

from ...errors import BlobRejected, GrammarRefused
from ...tokens.call_form import CallForm
from .engine import CompiledGrammar
from .llguidance_matcher import CompiledText


class AssumedEngine:
    name = "xgrammar"
    token_bytes: list[bytes] = []  # noqa: RUF012 - no engine has others

    def compile(self, form: CallForm, name: str, parameters: dict[str, Any]) -> CompiledGrammar:
        return CompiledText(_no_matcher)

    def size(self, grammar: CompiledGrammar) -> int:
        return 0

    def serialize(self, grammar: CompiledGrammar) -> str | None:
        return None

    def deserialize(self, text: str, parameters: dict[str, Any]) -> CompiledGrammar:
        raise BlobRejected("there is no engine")


def _no_matcher() -> Any:
    raise GrammarRefused("there is no engine", "")
