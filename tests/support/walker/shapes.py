"""Made-up dialects, one for each shape of calls."""

from dataclasses import dataclass

from toolgate_core.dialects.dialect import ARGUMENTS, ID, NAME, CallIds, Calls, Dialect, Reasoning


@dataclass(frozen=True)
class Shape:
    dialect: Dialect
    tokens: tuple[str, ...]
    """The marks that are tokens. All other marks are text."""
    begins: str
    """The text with which the calls begin."""
    ids: str = ""
    """The pattern of the ids in the text, if it has some."""


_SECTION = Calls(
    begin="<calls>",
    call=("<call>functions.", NAME, ":", ID, "<args>", ARGUMENTS, "</call>"),
    end="</calls>",
    ids=CallIds("conversation", form="functions.{name}:{id}"),
)
_ARRAY = Calls(
    begin="<calls>[",
    call=('{"name": "', NAME, '", "arguments": ', ARGUMENTS, "}"),
    separator=", ",
    end="]</calls>",
)
_ARRAY_WITH_IDS = Calls(
    begin="[CALLS][",
    call=('{"name": "', NAME, '", "arguments": ', ARGUMENTS, ', "id": "', ID, '"}'),
    separator=", ",
    end="]",
    ids=CallIds("random"),
)
_TAGS = Calls(
    call=('<tool>\n{"name": "', NAME, '", "arguments": ', ARGUMENTS, "}\n</tool>"), separator="\n"
)
_BARE = Calls(
    call=('{"name": "', NAME, '", "parameters": ', ARGUMENTS, "}"),
    parallel=False,
    only_at_start=True,
)
_NAMED = Calls(call=("[CALL]", NAME, "[ARGS]", ARGUMENTS), ends=("<|called|>",))
_THOUGHTS = Reasoning(begin="<think>", end="</think>", after="\n\n")
_TEXT_THOUGHTS = Reasoning(begin="Thoughts:", end="Answer:", after="\n")


def _shape(name, calls, begins, tokens=(), reasoning=_THOUGHTS, ids=""):
    return Shape(Dialect(name=name, calls=calls, reasoning=reasoning), tokens, begins, ids)


_SECTION_MARKS = ("<calls>", "<call>", "<args>", "</call>", "</calls>")
_NUMBER, _CODE = r"\d+", r"[A-Za-z0-9]{9}"
SHAPES = {
    shape.dialect.name: shape
    for shape in (
        _shape("section", _SECTION, "<calls>", _SECTION_MARKS, ids=_NUMBER),
        _shape("section_in_text", _SECTION, "<calls>", reasoning=_TEXT_THOUGHTS, ids=_NUMBER),
        _shape("section_half_in_text", _SECTION, "<calls>", ("<calls>", "</call>"), ids=_NUMBER),
        _shape("array", _ARRAY, "<calls>", ("<calls>", "</calls>")),
        _shape("array_in_text", _ARRAY, "<calls>", reasoning=_TEXT_THOUGHTS),
        _shape("array_with_ids", _ARRAY_WITH_IDS, "[CALLS]", ("[CALLS]",), ids=_CODE),
        _shape("tags", _TAGS, "<tool>", ("<tool>", "</tool>")),
        _shape("tags_in_text", _TAGS, "<tool>"),
        _shape("bare", _BARE, '{"name": "'),
        _shape("named", _NAMED, "[CALL]", ("[CALL]", "[ARGS]", "<|called|>")),
        _shape("named_in_text", _NAMED, "[CALL]"),
    )
}
