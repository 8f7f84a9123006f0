"""The room that reasoning leaves for a required call, by the setting and the request."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.support.apis.chat_events import request
from toolgate_core import wire
from toolgate_core.dialects.families.hermes import QWEN3
from toolgate_core.plan import EnforcementPlan, make_plan
from toolgate_proxy.chat.constraints import with_room_for_call
from toolgate_proxy.grammars.call_lengths import CallLengths
from toolgate_proxy.settings import Settings

REQUIRED = replace(make_plan(request(), QWEN3), choice="required")
SAMPLED = wire.Sampling(temperature=1.0)


async def learnt() -> CallLengths:
    lengths = CallLengths(None, 100)
    for _ in range(50):
        lengths.note("key", 64)
    await lengths.flush()
    return lengths


LEARNT = asyncio.run(learnt())


def room(plan: EnforcementPlan, setting: Any, sampling: wire.Sampling = SAMPLED) -> Any:
    changed = with_room_for_call(plan, sampling, setting, LEARNT, ["key", "other"])
    return changed.call_tokens, changed.seen_call_tokens


def test_the_setting_decides() -> None:
    assert room(REQUIRED, "learnt") == (None, 64)
    assert room(REQUIRED, "schema") == (None, None)
    assert room(REQUIRED, 300) == (300, None)
    assert room(REQUIRED, 0) == (0, None)


@pytest.mark.parametrize("setting", ["learnt", "schema", 300])
def test_a_request_may_set_it_and_other_choices_have_none(setting: Any) -> None:
    assert room(replace(REQUIRED, call_tokens=9), setting) == (9, None)
    assert room(replace(REQUIRED, choice="auto"), setting) == (None, None)


@pytest.mark.parametrize("sampling", [wire.Sampling(seed=0), wire.Sampling(temperature=0)])
def test_requests_that_can_be_reproduced_do_without_what_was_learnt(
    sampling: wire.Sampling,
) -> None:
    assert room(REQUIRED, "learnt", sampling) == (None, None)
    assert room(REQUIRED, 300, sampling) == (300, None)


@pytest.mark.parametrize(
    ("given", "read"), [("learnt", "learnt"), ("schema", "schema"), ("300", 300), ("", "learnt")]
)
def test_the_setting_is_read(monkeypatch: pytest.MonkeyPatch, given: str, read: Any) -> None:
    monkeypatch.setenv("TOOLGATE_REQUIRED_CALL_TOKENS", given)
    assert Settings().required_call_tokens == read


@pytest.mark.parametrize("given", ["-1", "learned", "1.5"])
def test_other_values_of_the_setting_are_errors(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("TOOLGATE_REQUIRED_CALL_TOKENS", given)
    with pytest.raises(ValueError, match="required_call_tokens"):
        Settings()
