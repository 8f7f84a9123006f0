"""Hooks into vLLM's engine for the adapter structured_output.

vLLM has no registry of grammar back ends, so methods of its manager and of its scheduler are
replaced. Each replacement handles the requests that have our spec, and leaves all others to vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

import torch
from vllm.v1.core.sched.output import GrammarOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.structured_output import StructuredOutputManager

from ..enforcement import spec
from ..tokens.masks import words_per_row
from . import draft_config, forced_drafts
from .engine_sequences import engine_sequences
from .structured_output import EnforcementGrammar, is_token

MANAGER = StructuredOutputManager
_grammar_init, _create_grammar = MANAGER.grammar_init, MANAGER._create_grammar
_accept_tokens, _validate_tokens = MANAGER.accept_tokens, MANAGER.validate_tokens
_grammar_bitmask, _get_grammar_bitmask = MANAGER.grammar_bitmask, Scheduler.get_grammar_bitmask


def install() -> None:
    MANAGER.grammar_init = grammar_init
    MANAGER._create_grammar = create_grammar
    MANAGER.accept_tokens = accept_tokens
    MANAGER.validate_tokens = validate_tokens
    MANAGER.grammar_bitmask = grammar_bitmask
    Scheduler.get_grammar_bitmask = get_grammar_bitmask


# --- a request comes ---


def grammar_init(self: Any, request: Any) -> None:
    """Create our grammars, or submit their creation, without a back end of vLLM, which takes a
    second to create, and which vLLM 0.33 lets no request use after one with another back end."""
    structured, params = request.structured_output_request, request.sampling_params
    enforced = params is not None and spec.EXTRA_ARG in (params.extra_args or ())
    if structured is None or not enforced:
        _grammar_init(self, request)
    elif self._use_async_grammar_compilation:
        structured.grammar = _created_at_once(self.vllm_config, request) or (
            self.executor.submit(self._create_grammar, request)
        )
    else:
        structured.grammar = self._create_grammar(request)


def _created_at_once(vllm_config: Any, request: Any) -> EnforcementGrammar | None:
    """Create a grammar here if that takes a few microseconds. To hand it to a thread would cost the
    engine's main thread more."""
    with suppress(Exception):  # the pool finds it again and reports it
        constraints = _constraints(request)
        if constraints is not None:
            return engine_sequences(vllm_config).create_known(constraints, _prompt(request))
    return None


def create_grammar(self: Any, request: Any) -> Any:
    constraints = _constraints(request)
    if constraints is None:
        return _create_grammar(self, request)
    return engine_sequences(self.vllm_config).create_grammar(constraints, _prompt(request))


def _constraints(request: Any) -> spec.Spec | None:
    params = request.sampling_params
    return spec.from_extra_args(params.extra_args, params.seed) if params else None


def _prompt(request: Any) -> Sequence[int]:
    return request.prompt_token_ids or ()


# --- a step ---


def accept_tokens(self: Any, request: Any, new_token_ids: list[int]) -> bool:
    """Skip vLLM's search for the end of reasoning: our grammars include it."""
    structured = request.structured_output_request
    if structured is not None:
        grammar = structured._grammar
        if type(grammar) is EnforcementGrammar:
            return grammar.accept_tokens(request.request_id, new_token_ids)
    accepted: bool = _accept_tokens(self, request, new_token_ids)
    return accepted


def get_grammar_bitmask(self: Any, scheduler_output: Any) -> Any:
    """Use our own loop if all structured requests of a step are ours. The runners accept the
    requests in any order.

    With drafts only if the workers have tables of rows: the layout of a bitmask differs between
    releases of vLLM."""
    if not scheduler_output.has_structured_output_requests:
        return None
    requests, config = self.requests, self.vllm_config
    grammars = {
        each: structured._grammar
        for each in scheduler_output.num_scheduled_tokens
        if (request := requests.get(each)) is not None
        and (structured := request.structured_output_request) is not None
        and not request.is_prefill_chunk
    }
    if set(map(type, grammars.values())) != OURS:
        return _get_grammar_bitmask(self, scheduler_output)
    masks, ids = engine_sequences(config).step_masks, [*grammars]
    drafts = scheduler_output.scheduled_spec_decode_tokens
    if not config.num_speculative_tokens:
        return GrammarOutput(ids, masks.fill(grammars, drafts))
    if masks.numbers is None:
        return _get_grammar_bitmask(self, scheduler_output)
    if draft_config.is_configured(config):
        return forced_drafts.fill(self, scheduler_output, grammars, masks.sent)
    acceptable = [len([*takewhile(is_token, drafts.get(each, ()))]) for each in ids]
    return GrammarOutput(ids, masks.fill(grammars, drafts), acceptable)


OURS = {EnforcementGrammar}


def grammar_bitmask(
    self: Any,
    requests: Any,
    structured_output_request_ids: list[str],
    scheduled_spec_decode_tokens: dict[str, list[int]],
) -> Any:
    """Allocate the bitmask, which vLLM does by its back end; see `grammar_init`."""
    if self._grammar_bitmask is None and self.backend is None:
        config = self.vllm_config
        rows = config.scheduler_config.max_num_seqs * (1 + config.num_speculative_tokens)
        words = words_per_row(config.model_config.get_vocab_size())
        self._grammar_bitmask = torch.full((rows, words), -1, dtype=torch.int32)
    ids, drafts = structured_output_request_ids, scheduled_spec_decode_tokens
    if draft_config.is_configured(self.vllm_config):
        found = {each: requests[each].structured_output_request.grammar for each in ids}
        ours = {k: each for k, each in found.items() if isinstance(each, EnforcementGrammar)}
        forced_drafts.plan(requests, ours, drafts, self.vllm_config, len(ids))
    return _grammar_bitmask(self, requests, ids, drafts)


# --- drafts ---


def validate_tokens(self: Any, request: Any, spec_tokens: list[int]) -> list[int]:
    """Propose forced text as drafts. vLLM calls this method with each draft before the draft is
    scheduled.

    Not under async scheduling: there the worker already has its drafts, and the scheduler can only
    remove some. Not with a draft model: there the rejection sampler needs the draft model's
    probabilities for each proposed token."""
    structured = request.structured_output_request
    grammar = structured.grammar if structured is not None else None
    if not isinstance(grammar, EnforcementGrammar) or not _may_replace_drafts(self.vllm_config):
        valid: list[int] = _validate_tokens(self, request, spec_tokens)
        return valid
    proposed = [*takewhile(is_token, spec_tokens)]
    return grammar.drafts(proposed, self.vllm_config.num_speculative_tokens)


def _may_replace_drafts(config: Any) -> bool:
    from_text = config.speculative_config.method in ("ngram", "suffix")
    return from_text and not config.scheduler_config.async_scheduling
