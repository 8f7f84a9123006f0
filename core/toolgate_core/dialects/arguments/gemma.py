"""`{key:value,…}` with bare keys, and strings between two marks."""

from __future__ import annotations

import re

from ..codecs import GemmaValues
from ..marks import Marks
from .text import escaped, overlap
from .typed_values import State, TypedValues

_BARE_KEY = re.compile(r"[^:,{}\[\]]*")


class GemmaArguments(TypedValues):
    """Without `braces`, the arguments end before the `}` of the call, which is in `rest`.

    A string ends at the next quote mark: there is no escape. A key can also be a string, as in the
    declarations of tools.
    """

    OUTER_END = "}"

    def __init__(self, codec: GemmaValues, marks: Marks) -> None:
        super().__init__(marks)
        self._quote = marks.encode(codec.quote)
        self.takes_end = codec.braces
        if codec.braces:
            self._state = State.BEGIN

    def _begin(self) -> str | None:
        if not self._skip_space():
            return None
        if self._pending[0] != "{":
            raise self._error("The arguments do not begin with a brace.")
        self._take(1)
        self._state = State.MEMBER
        return ""

    def _key(self) -> str | None:
        begins = self._begin_string()
        if begins is None:
            return None
        if begins:
            self._state, self._is_key = State.STRING, True
            return '"'
        found = _BARE_KEY.match(self._pending)
        assert found is not None
        if found.end() == len(self._pending):
            return None
        name = found.group()
        if self._pending[found.end()] != ":" or not name:
            raise self._error("A key is not followed by its value.")
        self._check_text(name)
        self._take(found.end() + 1)
        self._state = State.VALUE
        return f'"{escaped(name.rstrip())}": '

    def _begin_string(self) -> bool | None:
        if self._pending.startswith(self._quote):
            self._take(len(self._quote))
            return True
        return None if self._quote.startswith(self._pending) else False

    def _string_text(self) -> tuple[str, bool] | None:
        at = self._pending.find(self._quote)
        if at >= 0:
            self._check_text(self._pending[:at])
            written = escaped(self._take(at))
            self._take(len(self._quote))
            return written, True
        known = len(self._pending) - overlap(self._pending, self._quote)
        if not known:
            return None
        self._check_text(self._pending[:known])
        return escaped(self._take(known)), False

    def _cut_string(self) -> str:
        return escaped(self._pending)
