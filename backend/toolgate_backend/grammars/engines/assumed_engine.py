"""A stand-in for xgrammar, which needs torch: it compiles all schemas that are chosen for it.

Its grammars have a verdict, but no masks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ...errors import BlobRejected
from ...tokens.call_form import CallForm
from ..graph.free_strings import NOT_FREE, FreeTexts
from .engine import CompiledGrammar, EngineMatcher


class AssumedEngine:
    name = "xgrammar"

    @property
    def token_bytes(self) -> list[bytes]:
        return []

    def compile(self, form: CallForm, name: str, parameters: dict[str, Any]) -> CompiledGrammar:
        return _Assumed()

    def size(self, grammar: CompiledGrammar) -> int:
        return 0

    def serialize(self, grammar: CompiledGrammar) -> str | None:
        return None

    def deserialize(self, text: str, parameters: dict[str, Any]) -> NoReturn:
        raise BlobRejected("there is no engine that could load it")


class _Assumed:
    by_text = True
    free: FreeTexts = NOT_FREE
    fixed_prefix = b""

    @property
    def make(self) -> Callable[[], EngineMatcher]:
        return self.matcher

    def matcher(self) -> NoReturn:
        raise NotImplementedError("a grammar of an assumed engine has no masks")
