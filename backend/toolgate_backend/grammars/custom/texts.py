"""The fixed texts around the input of a custom tool, and how the input is written between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolgate_core.custom_tools import INPUT
from toolgate_core.dialects.arguments.tagged import CDATA, CDATA_END
from toolgate_core.dialects.codecs import Codec, GemmaValues, Json, NestedTags, Pythonic, Tagged
from toolgate_core.dialects.marks import Marks

from ...errors import GrammarRefused

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
    """The texts of arguments that have only an input."""
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
