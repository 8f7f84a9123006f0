from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.chat_request import ChatRequest
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.wire import ReasoningMode
from toolgate_proxy.chat.request.preparation import with_reasoning_switch


@pytest.mark.parametrize(
    ("dialect", "mode", "given", "mode_after", "kwargs"),
    [
        ("qwen3", "off", {"enable_thinking": False}, "off", {"enable_thinking": False}),
        ("deepseek_v31", "on", {}, "on", {"thinking": True}),
        ("deepseek_v31", "off", {}, "off", {"thinking": False}),
        ("deepseek_v31", "default", {"thinking": True}, "on", {"thinking": True}),
        ("deepseek_v31", "default", {"thinking": False}, "off", {"thinking": False}),
        ("deepseek_v31", "default", {}, "default", {}),
        ("seed_oss", "off", {}, "off", {"thinking_budget": 0}),
        ("seed_oss", "on", {"thinking_budget": 512}, "on", {"thinking_budget": 512}),
        ("gpt_oss", "on", {"reasoning_effort": "xhigh"}, "on", {"reasoning_effort": "high"}),
        ("gpt_oss", "on", {"reasoning_effort": "minimal"}, "on", {"reasoning_effort": "low"}),
        ("gpt_oss", "off", {"reasoning_effort": "none"}, "off", {}),
        ("gpt_oss", "on", {}, "on", {"reasoning_effort": "medium"}),
        ("solar_open", "off", {"reasoning_effort": "none"}, "off", {"reasoning_effort": "minimal"}),
        ("minimax_m2", "off", {}, "off", {}),
        ("hermes", "off", {"a": 1}, "off", {"a": 1}),
    ],
)
def test_the_template_gets_the_argument_of_its_family(
    dialect: str, mode: ReasoningMode, given: Any, mode_after: str, kwargs: Any
) -> None:
    request = ChatRequest("id", "m", (), reasoning=mode, template_kwargs=given)
    made = with_reasoning_switch(request, DIALECTS[dialect])
    assert (made.reasoning, made.template_kwargs) == (mode_after, kwargs)
    assert with_reasoning_switch(made, DIALECTS[dialect]) == made
