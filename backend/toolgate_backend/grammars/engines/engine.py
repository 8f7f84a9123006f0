"""The seam between the enforcement and the grammar engines.

A grammar is one tool's whole call text: the dialect's envelope with the tool's name in it, around
JSON that its schema allows. Bitmasks are rows of little-endian int32 words, one bit a token id,
the layout xgrammar and llguidance share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from toolgate_core import grammar_key
from toolgate_core.dialect import Dialect

MAX_HEAD = 256
"""Bytes that are told of what every call of a tool begins with. A name and its envelope are
shorter; a constant behind them may be a hundred thousand, and each place is remembered."""

SELF_DELIMITING = ("object", "array")

Words = npt.NDArray[np.int32]


def words_for(vocabulary_size: int) -> int:
    return (vocabulary_size + 31) // 32


class Matcher(Protocol):
    """One call being written. A refused token leaves the state as it was."""

    def accept(self, token: int) -> bool: ...

    def rollback(self, count: int) -> None: ...

    def fill(self, row: Words) -> None:
        """Overwrite `row` (one row of words) with the tokens that may come next."""

    def forced(self) -> bytes:
        """The text that must come next, as far as the engine knows it; the state stays."""
        ...

    @property
    def finished(self) -> bool:
        """The call text is whole; nothing more may come."""
        ...

    @property
    def complete(self) -> bool:
        """The text is whole, though it may go on: of texts that don't tell their own end."""
        ...


class CompiledGrammar(Protocol):
    @property
    def head(self) -> bytes:
        """The text that every call begins with, as far as the engine knows it; `MAX_HEAD` of it."""
        ...

    def matcher(self) -> Matcher: ...


class Engine(Protocol):
    name: str

    def compile(self, dialect: Dialect, name: str, parameters: dict[str, Any]) -> CompiledGrammar:
        """Raises GrammarRefused when the engine cannot hold the schema soundly."""
        ...


def envelope(
    dialect: Dialect, name: str, parameters: Mapping[str, Any] | None = None
) -> tuple[str, str]:
    """The call text before and after the arguments.

    Content has no envelope. What does not tell its own end (a number could go on) ends a line.
    """
    if name == grammar_key.CONTENT:
        return "", "" if (parameters or {}).get("type") in SELF_DELIMITING else "\n"
    return dialect.envelope_head + name + dialect.envelope_middle, dialect.envelope_tail
