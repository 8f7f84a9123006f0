"""`{key:value,…}` with bare keys, and strings between two marks."""

from __future__ import annotations

import re

from ..dialect import GemmaValues
from ..marks import Marks
from .parser import escaped
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
        if not self._pending.skip_space():
            return None
        if self._pending.text[0] != "{":
            raise self._pending.error("The arguments do not begin with a brace.")
        self._pending.take(1)
        self._state = State.MEMBER
        return ""

    def _key(self) -> str | None:
        begins = self._begin_string()
        if begins is None:
            return None
        if begins:
            self._state, self._is_key = State.STRING, True
            return '"'
        found = _BARE_KEY.match(self._pending.text)
        assert found is not None
        if found.end() == len(self._pending.text):
            return None
        name = found.group()
        if self._pending.text[found.end()] != ":" or not name:
            raise self._pending.error("A key is not followed by its value.")
        self._pending.check(name)
        self._pending.take(found.end() + 1)
        self._state = State.VALUE
        return f'"{escaped(name.rstrip())}": '

    def _begin_string(self) -> bool | None:
        if self._pending.text.startswith(self._quote):
            self._pending.take(len(self._quote))
            return True
        return None if self._quote.startswith(self._pending.text) else False

    def _string_text(self) -> tuple[str, bool] | None:
        found = self._pending.string_until(self._quote)
        if found is not None and found[1]:
            self._pending.take(len(self._quote))
        return found

    def _cut_string(self) -> str:
        return escaped(self._pending.text)
