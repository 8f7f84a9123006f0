"""The room that reasoning leaves for a required call, by the request and earlier calls."""

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

REQUIRED = replace(make_plan(request(), QWEN3), choice="required")
SAMPLED = wire.Sampling(temperature=1.0)


async def learnt() -> CallLengths:
    lengths = CallLengths(None, 100)
    for _ in range(50):
        lengths.note("key", 64)
    await lengths.flush()
    return lengths


LEARNT = asyncio.run(learnt())


def room(plan: EnforcementPlan, sampling: wire.Sampling = SAMPLED) -> Any:
    changed = with_room_for_call(plan, sampling, LEARNT, ["key", "other"])
    return changed.call_tokens, changed.seen_call_tokens


def test_earlier_calls_decide() -> None:
    assert room(REQUIRED) == (None, 64)


def test_a_request_may_set_it_and_other_choices_have_none() -> None:
    assert room(replace(REQUIRED, call_tokens=9)) == (9, None)
    assert room(replace(REQUIRED, choice="auto")) == (None, None)


@pytest.mark.parametrize("sampling", [wire.Sampling(seed=0), wire.Sampling(temperature=0)])
def test_requests_that_can_be_reproduced_do_without_what_was_learnt(
    sampling: wire.Sampling,
) -> None:
    assert room(REQUIRED, sampling) == (None, None)
