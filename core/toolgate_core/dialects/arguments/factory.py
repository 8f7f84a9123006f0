"""The parser of a codec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..codecs import Codec, GemmaValues, Json, NestedTags, Pythonic, Tagged
from ..marks import Marks
from .gemma import GemmaArguments
from .json_arguments import JsonArguments
from .nested import NestedArguments
from .parser import ArgumentsParser
from .pythonic import PythonicArguments
from .tagged import TaggedArguments


def make_parser(codec: Codec, parameters: Mapping[str, Any], marks: Marks) -> ArgumentsParser:
    """A parser for one call. `parameters` is the tool's canonical JSON Schema."""
    if isinstance(codec, Json):
        return JsonArguments()
    if isinstance(codec, Tagged):
        return TaggedArguments(codec, parameters, marks)
    if isinstance(codec, NestedTags):
        return NestedArguments(codec, parameters, marks)
    if isinstance(codec, Pythonic):
        return PythonicArguments(codec, marks)
    if isinstance(codec, GemmaValues):
        return GemmaArguments(codec, marks)
    raise NotImplementedError(f"The arguments of {type(codec).__name__} cannot be parsed yet.")
