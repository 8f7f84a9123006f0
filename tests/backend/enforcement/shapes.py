"""Made-up dialects, one for each shape of calls, and readers that share no code with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolgate_core.dialects.dialect import (
    ARGUMENTS,
    ID,
    NAME,
    CallIds,
    Calls,
    Dialect,
    Reasoning,
)

Read = Callable[[str], list[tuple[str, Any]]]


@dataclass(frozen=True)
class Shape:
    dialect: Dialect
    tokens: tuple[str, ...]
    """The marks that are tokens. All other marks are text."""
    begins: str
    """The text with which the calls begin."""
    read: Read
    """The calls in the text from `begins` on. Raises ValueError for anything else."""


def _all(pattern: str, between: str, text: str) -> list[re.Match[str]]:
    """The matches of `pattern` that are the whole text, with `between` between two."""
    found, at = [], 0
    while at < len(text) or not found:
        match = re.compile(pattern, re.DOTALL).match(text, at)
        if match is None:
            raise ValueError(f"no call at {at}: {text[at:][:40]!r}")
        found.append(match)
        at = match.end()
        if at < len(text):
            if not text.startswith(between, at):
                raise ValueError(f"no separator at {at}: {text[at:][:40]!r}")
            at += len(between)
    return found


def _section(text: str) -> list[tuple[str, Any]]:
    inner = re.fullmatch(r"<calls>(.*)</calls>", text, re.DOTALL)
    if inner is None:
        raise ValueError("no section")
    pattern = r"<call>functions\.([\w.-]+):(\d+)<args>(.*?)</call>"
    found = _all(pattern, "", inner[1])
    numbers = [int(match[2]) for match in found]
    if numbers != list(range(5, 5 + len(numbers))):
        raise ValueError(f"ids {numbers}")
    return [(match[1], json.loads(match[3])) for match in found]


def _array(text: str) -> list[tuple[str, Any]]:
    inner = re.fullmatch(r"<calls>(\[.*\])</calls>", text, re.DOTALL)
    if inner is None:
        raise ValueError("no array")
    return [(call["name"], call["arguments"]) for call in json.loads(inner[1])]


def _array_with_ids(text: str) -> list[tuple[str, Any]]:
    if not text.startswith("[CALLS]"):
        raise ValueError("no array")
    calls = json.loads(text.removeprefix("[CALLS]"))
    ids = [call["id"] for call in calls]
    if len({*ids}) != len(ids) or not all(re.fullmatch("[A-Za-z0-9]{9}", each) for each in ids):
        raise ValueError(f"ids {ids}")
    return [(call["name"], call["arguments"]) for call in calls]


def _tags(text: str) -> list[tuple[str, Any]]:
    found = _all(r"<tool>\n(\{.*?\})\n</tool>", "\n", text)
    calls = [json.loads(match[1]) for match in found]
    return [(call["name"], call["arguments"]) for call in calls]


def _bare(text: str) -> list[tuple[str, Any]]:
    call = json.loads(text)
    return [(call["name"], call["parameters"])]


def _named(text: str) -> list[tuple[str, Any]]:
    found = _all(r"\[CALL\]([\w.-]+)\[ARGS\](\{.*?\})(?=\[CALL\]|$)", "", text)
    return [(match[1], json.loads(match[2])) for match in found]


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


def _shape(
    name: str,
    calls: Calls,
    begins: str,
    read: Read,
    tokens: tuple[str, ...] = (),
    reasoning: Reasoning = _THOUGHTS,
) -> Shape:
    return Shape(Dialect(name=name, calls=calls, reasoning=reasoning), tokens, begins, read)


_SECTION_MARKS = ("<calls>", "<call>", "<args>", "</call>", "</calls>")
SHAPES = {
    shape.dialect.name: shape
    for shape in (
        _shape("section", _SECTION, "<calls>", _section, _SECTION_MARKS),
        _shape("section_in_text", _SECTION, "<calls>", _section, reasoning=_TEXT_THOUGHTS),
        _shape("section_half_in_text", _SECTION, "<calls>", _section, ("<calls>", "</call>")),
        _shape("array", _ARRAY, "<calls>", _array, ("<calls>", "</calls>")),
        _shape("array_in_text", _ARRAY, "<calls>", _array, reasoning=_TEXT_THOUGHTS),
        _shape("array_with_ids", _ARRAY_WITH_IDS, "[CALLS]", _array_with_ids, ("[CALLS]",)),
        _shape("tags", _TAGS, "<tool>", _tags, ("<tool>", "</tool>")),
        _shape("tags_in_text", _TAGS, "<tool>", _tags),
        _shape("bare", _BARE, '{"name": "', _bare),
        _shape("named", _NAMED, "[CALL]", _named, ("[CALL]", "[ARGS]", "<|called|>")),
        _shape("named_in_text", _NAMED, "[CALL]", _named),
    )
}
