"""Detection of calls and constrained content that repeat themselves without an end.

A model that has lost its way may repeat the same text in a string, or the same items in an array,
up to the token limit. Only exact repetition of tokens counts, and much more of it than in real
calls: a table of zeros or a ruled line is not meant.
"""

from __future__ import annotations

from collections.abc import Sequence

TOKENS_BETWEEN_CHECKS = 64
LEAST_REPEATS = 8


def repeats(tokens: Sequence[int], length: int) -> bool:
    """Whether the last `length` tokens are one sequence of tokens that is repeated at least
    `LEAST_REPEATS` times."""
    if length < LEAST_REPEATS or len(tokens) < length:
        return False
    last = list(tokens[-length:])
    return any(
        last[-1] == last[-1 - period] and last[period:] == last[:-period]
        for period in range(1, length // LEAST_REPEATS + 1)
    )
