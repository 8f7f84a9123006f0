"""PLaMo 3: marks of three tokens each, such as `<|plamo:begin_`, `think` and `:plamo|>`."""

from __future__ import annotations

from ..dialect import ARGUMENTS, NAME, Calls, Dialect, Reasoning, Recognition
from ..golden_texts import golden_calls


def _begin(mark: str) -> str:
    return f"<|plamo:begin_{mark}:plamo|>"


def _end(mark: str) -> str:
    return f"<|plamo:end_{mark}:plamo|>"


_JSON = "<|plamo:constrain|>json<|plamo:msg|>"
PLAMO3 = Dialect(
    name="plamo3",
    models=("PLaMo 3",),
    shape="name_json",
    calls=Calls(
        begin=_begin("tool_requests"),
        call=(
            _begin("tool_request") + _begin("tool_name"),
            NAME,
            _end("tool_name") + _begin("tool_arguments") + _JSON,
            ARGUMENTS,
            _end("tool_arguments") + _end("tool_request"),
        ),
        end=_end("tool_requests"),
        ends=("<|plamo:tag|>",),
    ),
    reasoning=Reasoning(begin=_begin("think"), end=_end("think"), after=""),
    ends_after_content=("<|plamo:tag|>",),
    recognition=Recognition(
        template=("<|plamo:", "begin_tool_requests"), tokens=("<|plamo:begin_", ":plamo|>")
    ),
    source="vLLM's parser and structural tag plamo3",
    goldens=golden_calls(
        lambda name, arguments, number: (
            f"<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{name}"
            "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json"
            f"<|plamo:msg|>{arguments}<|plamo:end_tool_arguments:plamo|>"
            "<|plamo:end_tool_request:plamo|>"
        ),
        begin="<|plamo:begin_tool_requests:plamo|>",
        end="<|plamo:end_tool_requests:plamo|>",
        reasoning=("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>", ""),
    ),
)

DIALECTS = (PLAMO3,)
