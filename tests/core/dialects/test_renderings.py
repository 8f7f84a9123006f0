"""The segmenter reads the calls that real chat templates write, in each model's dialect."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from tests.support.dialects.golden_tokens import GoldenTokens, joined, message_of
from tests.support.shared_data import TEMPLATES
from toolgate_core.dialects.codecs import Json
from toolgate_core.dialects.dialect import Dialect, Golden, Slot
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS

from .test_recognition import EXPECTED, shared

ONE = {"city": "Paris", "days": 3, "metric": True, "tags": ["a", "b"], "opt": {"a": "x"}}
TWO = {"city": "Rome"}
SCHEMAS = {"get_weather": {"type": "object", "properties": {"city": {"type": "string"}}}}

NOT_THE_OUTPUT = {
    "HuggingFaceTB-SmolLM3-3B": "renders no calls",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "renders no calls",
    "ibm-granite-granite-3.3-2B-Instruct": "renders no calls",
    "vllm-deepseekv3": "renders the white space of its own source",
    "vllm-deepseekv31": "renders the white space of its own source",
    "vllm-granite": "indents the array, which the model does not",
    "vllm-internlm2_tool": "names the arguments `arguments`, the model `parameters`",
    "vllm-phi4_mini": "renders Python, without `functools`",
    "openai-gpt-oss-120b": "writes the recipient before the channel",
    "unsloth-Apriel-1.5": "adds the ids of the API to all calls but the last",
    "Apriel-1.6-15b-Thinker-fixed": "adds the ids of the API to all calls but the last",
}
"""Templates that write earlier calls in another form than the model."""

NOT_RENDERED = ("fireworks-ai-llama-3-firefunction-v2", "llama-cpp-deepseek-r1")
"""Templates that are not in rendered.json."""

CASES = [
    name
    for name, dialect in EXPECTED.items()
    if name not in (*NOT_THE_OUTPUT, *NOT_RENDERED)
    and (calls := DIALECTS[dialect].calls) is not None
    and isinstance(calls.codec, Json)
]
_END = re.compile(
    r"(<\|(im_end|eot_id|eom_id|eot|eom|eos|end|calls|endoftext|end_of_text)\|>|<EOS>|<sep>"
    r"|<SPECIAL_12>|<｜end▁of▁sentence｜>|<end_of_sentence>|(?<=\})<\|message_sep\|>"
    r"|\[RES1|<\|assistant_start\|>)"
)


@cache
def renderings() -> dict[str, dict[str, str]]:
    found = json.loads((TEMPLATES / "rendered.json").read_text())
    names = (
        each["template"].removesuffix(".jinja").replace("tool_chat_template_", "vllm-")
        for each in found
    )
    return dict(zip(names, found, strict=True))


def call_text(dialect: Dialect, rendered: str) -> str:
    """The calls in `rendered`, up to the end of the turn."""
    assert dialect.calls is not None
    first = dialect.calls.call[0]
    begin = dialect.calls.begin + ("get_weather" if isinstance(first, Slot) else first)
    at = rendered.index(begin)
    return _END.split(rendered[at:], maxsplit=1)[0]


@shared
@pytest.mark.parametrize("special", [True, False], ids=["marks_are_tokens", "marks_are_text"])
@pytest.mark.parametrize("name", CASES)
def test_rendered_calls_are_read(name: str, special: bool) -> None:
    dialect = DIALECTS[EXPECTED[name]]
    assert dialect.calls is not None
    found = GoldenTokens(dialect, mark_texts(dialect) if special else (), SCHEMAS)
    rendered = renderings()[name]
    wanted: dict[str, list[dict[str, Any]]] = {"one_call_after_user_text": [ONE]}
    if dialect.calls.parallel:
        wanted["two_calls_results_and_prompt"] = [TWO, TWO]
    for key, arguments in wanted.items():
        text = call_text(dialect, rendered[key])
        message = message_of(found.segment(Golden(text=text), [joined(found.units(text))]))
        assert [call.name for call in message.calls] == ["get_weather"] * len(arguments)
        assert [call.arguments for call in message.calls] == arguments
        assert message.content is None
