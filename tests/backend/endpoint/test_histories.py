"""Histories are brought into the form that a model's chat template accepts."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from tests.support.effort import repeats
from tests.support.shared_data import TEMPLATES
from toolgate_backend.endpoint.added_tools import KNOWN
from toolgate_backend.endpoint.histories import RULES, conversation, learnt

HISTORIES = (
    *{probe for _, probes, _ in RULES for probe in probes},
    "suc2rrusuaucrus",
    "asucrcrauu",
)
UNRENDERED = {
    "fireworks-ai-llama-3-firefunction-v2": "it reads `functions`",
    "llama-cpp-deepseek-r1": "it is no template of transformers",
}
LOSSY = (
    "HuggingFaceTB-SmolLM3-3B",
    "LFM2-8B-A1B",
    "LFM2.5-Instruct",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "ibm-granite-granite-3.3-2B-Instruct",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "vllm-mistral",
    "vllm-mistral_parallel",
)
"""Templates that show no calls, or the system message in the last message of the user only."""


class Template:
    """Renders prompts of text, as vLLM's renderer does."""

    def __init__(self, source: str) -> None:
        self.source = source

    async def __call__(self, messages: Sequence[Any], tools: Any) -> str:
        given = [_for_template(message) for message in messages]
        more = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}
        [text], _ = render_jinja_template(
            [given], tools and [*tools], chat_template=self.source, **more
        )
        return str(text)


def _for_template(message: Any) -> Any:
    calls = [
        {
            **call,
            "function": {
                **call["function"],
                "arguments": json.loads(call["function"]["arguments"]),
            },
        }
        for call in message.get("tool_calls") or ()
    ]
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content)
    return {**message, "content": content or ""} | ({"tool_calls": calls} if calls else {})


def random_history(numbers: random.Random) -> str:
    turns = ["s", "u", "a", "cr", "2rr", "uu", "aa"]
    return "".join(numbers.choices(turns, k=numbers.randrange(1, 9)))


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.jinja")), ids=lambda path: path.stem)
async def test_real_templates_show_all_texts_of_any_history_in_order(path: Any) -> None:
    template = Template(path.read_text())
    form = await learnt(template)
    numbers = random.Random(7)
    failed = {}
    for letters in (
        *HISTORIES,
        *(random_history(numbers) for _ in range(repeats(20, nightly=300))),
    ):
        messages, _ = form.messages(conversation(letters))
        texts = re.findall(r"mark\d+", json.dumps(messages))
        given = re.findall(r"mark\d+", json.dumps(conversation(letters)))
        assert sorted(texts) == sorted(given), letters
        try:
            shown = re.findall(r"mark\d+", await template(messages, form.tools([KNOWN])))
        except Exception as error:  # noqa: BLE001  templates raise errors of any type
            failed[letters] = repr(error)
            continue
        if path.stem not in LOSSY and shown != texts:
            failed[letters] = f"{shown} {texts}"
    assert bool(failed) == (path.stem in UNRENDERED), failed
