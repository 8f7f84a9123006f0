"""Ids of calls that stand in the text of a call. The automaton forces them."""

from __future__ import annotations

import hashlib
import string

from toolgate_core.dialects.dialect import Dialect

from ..spec import Spec

ALPHABET = string.ascii_letters + string.digits
CHOICE_STEP = 32
"""Difference between the numbers of the first calls of two choices, which have different ids."""


class CallIdentifiers:
    def __init__(self, dialect: Dialect) -> None:
        self._ids = dialect.calls.ids if dialect.calls else None

    def call_id(self, spec: Spec, index: int) -> str:
        """The id of call number `index` of the turn, from 0. Empty if calls have no ids. It is the
        same each time, so that a request can be continued by another backend."""
        if self._ids is None:
            return ""
        index += spec.choice_number * CHOICE_STEP
        if self._ids.kind == "turn":
            return str(self._ids.first + index)
        if self._ids.kind == "conversation":
            return str(self._ids.first + spec.earlier_calls + index)
        digest = hashlib.sha256(f"{spec.id_seed}:{index}".encode()).digest()
        number, text = int.from_bytes(digest), ""
        for _ in range(self._ids.length):
            number, digit = divmod(number, len(ALPHABET))
            text += ALPHABET[digit]
        return text
