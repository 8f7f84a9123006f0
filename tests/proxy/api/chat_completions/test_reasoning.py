"""Reasoning mode and reasoning budget of a request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apis.admitted_requests import admitted
from toolgate_core.errors import InvalidRequest, UnsupportedParameter


@pytest.mark.parametrize(
    ("params", "mode", "kwargs"),
    [
        ({"chat_template_kwargs": {"enable_thinking": True}}, "on", {"enable_thinking": True}),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "off", {"enable_thinking": False}),
        ({"chat_template_kwargs": {"enable_thinking": None}}, "default", None),
        ({"chat_template_kwargs": {"style": "short"}}, "default", {"style": "short"}),
        (
            {"reasoning_effort": "none"},
            "off",
            {"reasoning_effort": "none", "enable_thinking": False},
        ),
        (
            {"reasoning_effort": "high"},
            "on",
            {"reasoning_effort": "high", "enable_thinking": True},
        ),
        (
            {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}},
            "off",
            {"reasoning_effort": "high", "enable_thinking": False},
        ),
    ],
)
def test_reasoning_mode_and_template_arguments(
    params: dict[str, Any], mode: str, kwargs: dict[str, Any] | None
) -> None:
    request = admitted(**params)
    assert (request.reasoning, request.template_kwargs) == (mode, kwargs)


@pytest.mark.parametrize("name", ["chat_template", "tools", "messages"])
def test_reserved_template_arguments_are_rejected(name: str) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        admitted(chat_template_kwargs={name: "x"})
    assert refusal.value.param == f"chat_template_kwargs.{name}"


@pytest.mark.parametrize(
    ("params", "budget"),
    [
        ({}, None),
        ({"reasoning_effort": "low"}, 2048),
        ({"reasoning_effort": "high"}, None),
        ({"reasoning_effort": "low", "reasoning_budget": 7}, 7),
        ({"thinking_token_budget": 9}, 9),
        ({"thinking_token_budget": -1}, None),
        ({"reasoning_budget": 0}, 0),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, 1024),
    ],
)
def test_reasoning_budgets(params: dict[str, Any], budget: int | None) -> None:
    assert admitted(**params).reasoning_budget == budget


def test_other_forms_of_enable_thinking() -> None:
    assert admitted(thinking={"type": "enabled", "budget_tokens": 5}).reasoning == "on"
    assert admitted(thinking={"type": "disabled"}).reasoning == "off"
    assert admitted(enable_thinking=False).reasoning == "off"
    with pytest.raises(InvalidRequest):
        admitted(thinking={"type": "some"})
