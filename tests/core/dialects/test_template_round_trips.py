"""What real chat templates make of calls is read back as the same calls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.dialects.golden_tokens import joined_deltas, message_of
from tests.support.shared_data import TEMPLATES
from toolgate_core.dialects.dialect import GoldenCall
from toolgate_core.dialects.recognition import recognise
from toolgate_core.errors import EnforcementFailed
from toolgate_core.segmenter import Segmenter
from toolgate_core.wire import MarkIds

SCHEMAS: dict[str, Any] = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "metric": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "opt": {"type": "object"},
        },
    }
}
ONE = {"city": "Paris", "days": 3, "metric": True, "tags": ["a", "b"], "opt": {"a": "x"}}
BOOLEANS = "booleans are written `True`"
BLANKS = "blanks of the template's indentation are written between the marks"
DROPPED = "calls are left out"
STRINGS = "all values are written as strings"
UNQUOTED = "strings are written without quotation marks"
DEFECTS = {
    "ByteDance-Seed-OSS.jinja": "lists, objects and booleans are written as Python",
    "HuggingFaceTB-SmolLM3-3B.jinja": DROPPED,
    "LFM2-8B-A1B.jinja": DROPPED,
    "LFM2.5-Instruct.jinja": DROPPED,
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja": BOOLEANS,
    "Qwen3-Coder.jinja": BOOLEANS,
    "Qwen3.5-4B.jinja": BOOLEANS,
    "StepFun3.5-Flash.jinja": BOOLEANS,
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja": DROPPED,
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja": "the end of the calls is written twice",
    "ibm-granite-granite-3.3-2B-Instruct.jinja": DROPPED,
    "openai-gpt-oss-120b.jinja": "the name is written before the channel, not after it",
    "stepfun-ai-Step-3.5-Flash.jinja": BOOLEANS,
    "tool_chat_template_deepseekv3.jinja": BLANKS,
    "tool_chat_template_deepseekv31.jinja": BLANKS,
    "tool_chat_template_functiongemma.jinja": STRINGS,
    "tool_chat_template_gemma3_pythonic.jinja": "commas between arguments are left out",
    "tool_chat_template_glm4.jinja": DROPPED,
    "tool_chat_template_granite.jinja": "the array is indented",
    "tool_chat_template_internlm2_tool.jinja": "`arguments` is written in place of `parameters`",
    "tool_chat_template_llama3.2_pythonic.jinja": UNQUOTED,
    "tool_chat_template_llama4_pythonic.jinja": STRINGS,
    "tool_chat_template_phi4_mini.jinja": "arguments are written as Python, without `functools`",
    "tool_chat_template_qwen3coder.jinja": BOOLEANS,
    "tool_chat_template_toolace.jinja": UNQUOTED,
}
"""Templates whose text is not what their models write."""
_END = re.compile(
    r"(<\|[a-z_]+\|>|<EOS>|<｜end▁of▁sentence｜>|<SPECIAL_12>|<seed:eos>|\[e~\[|<end_of_sentence>"
    r"|<sep>|<turn\|>|<end_of_turn>|<\|tool_response>)\s*\Z"
)


def rendered() -> list[dict[str, str]]:
    path = TEMPLATES / "rendered.json"
    found: list[dict[str, str]] = json.loads(path.read_text()) if path.exists() else []
    return found


def template_of(name: str) -> Path:
    path = TEMPLATES / name
    return path if path.exists() else TEMPLATES / name.replace("tool_chat_template_", "vllm-")


@pytest.mark.parametrize("entry", rendered(), ids=lambda entry: str(entry["template"]))
def test_a_rendered_call_is_read_back(entry: dict[str, str]) -> None:
    name = entry["template"]
    path = template_of(name)
    dialect = recognise((), path.read_text()).dialect
    if dialect.calls is None or entry["one_call_after_user_text"].startswith("!!"):
        pytest.skip("the template has no form for calls")
    first = dialect.calls.begin + "".join(p for p in dialect.calls.call[:1] if isinstance(p, str))
    text = entry["one_call_after_user_text"].removeprefix(entry["generation_prompt"])
    text = text[max(text.find(first.strip()[:8]), 0) :]
    closing = dialect.calls.end or str(dialect.calls.call[-1])
    while (match := _END.search(text)) and not text.rstrip("\n").endswith(closing.strip()):
        text = text[: match.start()].rstrip()
    text = text.rstrip("\n") + "\n" * closing.endswith("\n")
    segmenter = Segmenter(dialect, MarkIds(), schemas=SCHEMAS)
    try:
        events = segmenter.feed([1] * len(text), list(text)) + segmenter.finish("stop")
        calls = message_of(joined_deltas(events)).calls
    except EnforcementFailed:
        calls = ()
    whole = [GoldenCall(call.name, call.arguments) for call in calls] == [
        GoldenCall("get_weather", ONE)
    ]
    assert whole is (name not in DEFECTS), text


@pytest.mark.skipif(
    not TEMPLATES.exists(), reason="the chat templates are in $TOOLGATE_SHARED, which is absent"
)
def test_at_least_forty_templates_are_read_back() -> None:
    with_calls = [
        entry
        for entry in rendered()
        if recognise((), template_of(entry["template"]).read_text()).dialect.calls
    ]
    assert len(with_calls) - len(DEFECTS) >= 40
