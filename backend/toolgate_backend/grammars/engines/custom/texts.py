"""The fixed texts around the input of a custom tool, token by token, and how the input is written
between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from toolgate_core.custom_tools import INPUT
from toolgate_core.dialects.arguments.tagged import CDATA, CDATA_END
from toolgate_core.dialects.dialect import Codec, GemmaValues, Json, NestedTags, Pythonic, Tagged
from toolgate_core.dialects.marks import Marks

from ....errors import GrammarRefused
from ....tokens import masks
from ....tokens.masks import TokenIds
from ....tokens.units import ESCAPE, mark_unit

Writing = Literal["json", "python", "raw"]
"""`json` and `python`: with the escapes of a string in double quotes. `raw`: as it is."""


@dataclass(frozen=True)
class InputTexts:
    """The texts are encoded (`Marks.encode`)."""

    before: str
    after: str
    writing: Writing
    forbidden: str = ""
    """The text at which readers end a raw input, so that it can't contain it; not encoded."""


def input_texts(codec: Codec, marks: Marks) -> InputTexts:
    """Return the texts of arguments that have only an input."""
    match codec:
        case Json(key_separator=separator):
            return InputTexts(f'{{"{INPUT}"{separator}"', '"}', "json")
        case Pythonic():
            return InputTexts(f'{INPUT}="', '"', "python")
        case Tagged():
            types = dict(codec.types)
            middle = codec.middle.replace("{type}", types.get("string", ""))
            before = f"{codec.begin}{INPUT}{middle}{CDATA if codec.cdata else ''}"
            after = f"{CDATA_END if codec.cdata else ''}{codec.end}"
            return InputTexts(
                marks.encode(before),
                marks.encode(after),
                "raw",
                CDATA_END if codec.cdata else codec.close,
            )
        case NestedTags(namespace=namespace):
            before, after = f"{namespace}<{INPUT}>", f"{namespace}</{INPUT}>"
            return InputTexts(marks.encode(before), marks.encode(after), "raw", namespace)
        case GemmaValues(quote=quote, braces=braces):
            before = f"{'{' if braces else ''}{INPUT}:{quote}"
            after = f"{quote}{'}' if braces else ''}"
            return InputTexts(marks.encode(before), marks.encode(after), "raw", quote)
    raise GrammarRefused(f"the codec {type(codec).__name__} has no texts", "")


@dataclass(frozen=True, eq=False)
class FixedText:
    """A text of a dialect, which may have marks. A position is a number of bytes of `units`."""

    units: bytes
    texts: Sequence[bytes]
    """The bytes of each token; empty for special tokens."""
    ids: Mapping[bytes, int]
    """By bytes: a token that has them."""
    _allowed: dict[int, TokenIds] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.units)

    @property
    def plain(self) -> bytes:
        """The text up to its first mark."""
        return self.units.partition(ESCAPE)[0]

    def allowed(self, at: int) -> TokenIds:
        """Return the tokens with which the text can go on."""
        if at not in self._allowed:
            rest = self.units[at:]
            if rest.startswith(ESCAPE):
                found = [int(rest[2 : rest.index(b"]")])]
            else:
                rest = rest.partition(ESCAPE)[0]
                starts = (rest[:n] for n in range(1, len(rest) + 1))
                found = [self.ids[start] for start in starts if start in self.ids]
            self._allowed[at] = masks.token_ids(found)
        return self._allowed[at]

    def after(self, at: int, token: int) -> int | None:
        """Return the position after a token; None if it does not belong here."""
        text = self.texts[token] if token < len(self.texts) else b""
        unit = text or mark_unit(token)
        return at + len(unit) if self.units.startswith(unit, at) else None
