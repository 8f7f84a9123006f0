"""The texts of a dialect that tokenizers usually have as special tokens."""

from __future__ import annotations

import re

from .dialect import Dialect

_MARK = re.compile(r"<[^<>\s\"]+>|\[[A-Z_]+\]|｜[A-Z]+｜|\]<\]\w+\[>\[")


def marks_of(dialect: Dialect) -> tuple[str, ...]:
    return tuple(sorted({mark for text in dialect.literals for mark in _MARK.findall(text)}))
