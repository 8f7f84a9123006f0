"""Drafts of forced text under async scheduling, for sequences with Toolgate's grammar only.

When vLLM schedules a step, the tokens of the step before are not known yet. So a draft is chosen
one step ahead: after the masks of step n, the automaton knows all tokens before step n. If all its
drafts are accepted and the token after them is the forced one, too, the text that is forced then is
the draft of step n + 1. Otherwise this draft is wrong. It is validated again before the masks of
step n + 1, when the tokens of step n are known, and what they rule out becomes padding, as vLLM
does with drafts that a grammar refuses. The mask of each position is that of the tokens before it,
so the distribution of responses is that without drafts.

Other requests have no drafts, and their steps do no work for them. draft_config.py has the engine's
configuration, draft_worker.py the workers' part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from vllm.v1.engine.core import EngineCore
from vllm.v1.structured_output.utils import strip_speculative_padding

from . import draft_config
from .structured_output import EnforcementGrammar

PADDING = -1
"""A draft that is not there, for vLLM."""


def register() -> None:
    """Add the hook to vLLM's engine. Called once."""
    EngineCore.step_with_batch_queue = _hook_step(EngineCore.step_with_batch_queue)


def revise(
    requests: Mapping[str, Any], ids: Sequence[str], scheduled: MutableMapping[str, list[int]]
) -> None:
    """Replace the scheduled drafts that are not allowed after the tokens known by now. Called
    before the masks of the step are computed."""
    for request_id in ids:
        drafts = scheduled.get(request_id)
        if not drafts:
            continue
        grammar = requests[request_id].structured_output_request.grammar
        if isinstance(grammar, EnforcementGrammar):
            valid = grammar.validate_tokens(drafts)
            scheduled[request_id] = [*valid, *[PADDING] * (len(drafts) - len(valid))]


def propose(
    requests: Mapping[str, Any],
    ids: Sequence[str],
    scheduled: Mapping[str, list[int]],
    limit: int,
) -> None:
    """Set the drafts of the next step. Called after the masks of a step with the drafts
    `scheduled`, and before vLLM schedules the next step."""
    for request_id in ids:
        request = requests[request_id]
        grammar = request.structured_output_request.grammar
        if isinstance(grammar, EnforcementGrammar):
            in_flight = strip_speculative_padding(scheduled.get(request_id, []))
            request.spec_token_ids = grammar.drafts_after(in_flight, limit)


def _hook_step(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Keep vLLM from asking the workers for drafts, with which it would replace the scheduled ones.
    The workers have none."""

    @functools.wraps(original)
    def step_with_batch_queue(self: Any) -> Any:
        if self.check_for_draft_tokens and draft_config.is_configured(self.vllm_config):
            self.check_for_draft_tokens = False
        return original(self)

    return step_with_batch_queue
