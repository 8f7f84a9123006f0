"""Drafts of forced text under async scheduling, for sequences with Toolgate's grammar only.

When vLLM schedules a step, the tokens of the step before are not known yet. So a draft is chosen
one step ahead: with the masks of step n, the automaton knows all tokens before step n. If all its
drafts are accepted and the token after them is the forced one, too, the text that is forced then is
the draft of step n + 1. Otherwise this draft is wrong. With the masks of step n + 1, when the
tokens of step n are known, what they rule out becomes padding, as vLLM does with drafts that a
grammar refuses. The mask of each position is that of the tokens before it, so the distribution of
responses is that without drafts.

Other requests have no drafts, and their steps do no work for them. draft_config.py has the engine's
configuration, draft_worker.py the workers' part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from itertools import chain
from typing import Any

from vllm.v1.core.sched.output import GrammarOutput, SchedulerOutput
from vllm.v1.engine.core import EngineCore

from ..enforcement.jump_forward import StepPlan
from ..tokens.masks import Row
from . import draft_config
from .structured_output import EnforcementGrammar

PADDING = -1
"""A draft that is not there, for vLLM."""

Grammars = Mapping[str, EnforcementGrammar]
"""By request id."""


def register() -> None:
    """Keep vLLM's engine from asking the workers for drafts, with which it would replace the
    scheduled ones. The workers have none. Called once."""
    own_step = EngineCore.step_with_batch_queue

    def step_with_batch_queue(self: Any) -> Any:
        if self.check_for_draft_tokens and draft_config.is_configured(self.vllm_config):
            self.check_for_draft_tokens = False
        return own_step(self)

    EngineCore.step_with_batch_queue = step_with_batch_queue


def fill(
    scheduler: Any,
    scheduled: SchedulerOutput,
    grammars: Grammars,
    sent: Callable[[Sequence[Row]], Any],
) -> GrammarOutput:
    """Return the masks of a step whose structured requests are all Toolgate's, and set the drafts
    of the next one, before vLLM schedules it. `sent`: what vLLM sends for some masks."""
    drafts, running = scheduled.scheduled_spec_decode_tokens, len(scheduled.num_scheduled_tokens)
    plans = plan(scheduler.requests, grammars, drafts, scheduler.vllm_config, running)
    masks = sent([*chain.from_iterable(each.rows for each in plans)])
    return GrammarOutput([*grammars], masks, [each.valid for each in plans])


def plan(
    requests: Mapping[str, Any],
    grammars: Grammars,
    scheduled: MutableMapping[str, list[int]],
    config: Any,
    running: int,
) -> Sequence[StepPlan]:
    """Replace the drafts `scheduled` that are not allowed after the tokens known by now, and set
    those of the next step, whose `running` sequences and all drafts have a place in one graph.
    `config`: the VllmConfig."""
    room = draft_config.places(config) - running
    limit = config.num_speculative_tokens if room > 0 else 0
    plans, drafting = list[StepPlan](), list[tuple[Any, Sequence[int]]]()
    for request_id, grammar in grammars.items():
        drafts = scheduled.get(request_id, ())
        planned = grammar.plan(drafts, limit)
        plans.append(planned)
        if invalid := len(drafts) - planned.valid:
            scheduled[request_id] = [*drafts[: planned.valid], *[PADDING] * invalid]
        if planned.following:
            drafting.append((requests[request_id], planned.following))
    share = room // max(1, len(drafting))
    for request, following in drafting:
        request.spec_token_ids = following[:share]
    return plans
