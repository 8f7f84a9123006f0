"""Endings of a grammar's text that are known: a completion from an earlier position of the text, or
a rest of it."""

from __future__ import annotations

import numpy as np

from ...tokens.masks import BitmaskRow
from ..engines.engine import Matcher

Path = tuple[int, ...]
"""Tokens that complete a grammar's text."""
MAX_TRIED_RESTS = 12
"""Maximum number of rests of a completion that are tried at one position. Most that can't follow
are refused at their first tokens, in a fraction of the time of a mask."""


def ends_text(matcher: Matcher, path: Path) -> bool:
    """Return whether the tokens end the matcher's text. The matcher is unchanged."""
    taken = 0
    for token in path:
        if matcher.finished or not matcher.accept(token):
            break
        taken += 1
    ends = matcher.finished and taken == len(path)
    matcher.rollback(taken)
    return ends


def ending_rest(matcher: Matcher, row: BitmaskRow, path: Path) -> Path:
    """Return the longest rest of `path` that ends the matcher's text; empty if there is none among
    the `MAX_TRIED_RESTS` longest that may follow. `row` is the matcher's mask."""
    if not path:
        return ()
    tokens = np.array(path)
    allowed = np.flatnonzero(row[tokens >> 5] >> (tokens & 31) & 1)
    for start in allowed[:MAX_TRIED_RESTS]:
        if ends_text(matcher, path[start:]):
            return path[start:]
    return ()
