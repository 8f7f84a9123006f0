"""Conversion of a request's sampling parameters to vLLM's `SamplingParams` and the automaton's
`Spec`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from vllm.exceptions import VLLMClientError
from vllm.sampling_params import RepetitionDetectionParams, RequestOutputKind, SamplingParams

from toolgate_core import wire
from toolgate_core.errors import (
    BudgetTooSmall,
    ContextLengthExceeded,
    InvalidRequest,
    UnsupportedParameter,
)
from toolgate_core.host_probe import optional
from toolgate_core.text_size import check_token_ids

from ..adapters import vllm_host
from ..enforcement.spec import ReasoningStart, Spec
from ..tokens.vocabulary import Vocabulary

REPETITION_TOKENS = 1024
"""Number of tokens after which a call or formatted content may not go on to repeat the same text or
items. Requests can turn this off (`repetition_guard`)."""

FIT_PART = 16
"""Part of the context below which `max_tokens` is not lowered: the conversation is too long then.
"""


def make_spec(
    request: wire.GenerateRequest,
    vocabulary: Vocabulary,
    *,
    reasoning: ReasoningStart,
    budget: int,
    least_tokens: Callable[[str], int | None],
) -> Spec | None:
    """Return the constraints of the sequence, as `enforcement` of the request asks; None without
    it. `budget` is the number of tokens allowed after the accepted ones, `least_tokens` returns
    that of the shortest call of a grammar. Raise UnsupportedParameter for stop tokens that are
    marks, and for a budget as `check_budget` does."""
    sampling, accepted, enforcement = request.sampling, request.accepted, request.enforcement
    if enforcement is None:
        return None
    spec = Spec(
        choice=enforcement.choice,
        keys=tuple(candidate.key for candidate in enforcement.candidates),
        max_calls=enforcement.max_calls,
        reasoning=reasoning,
        skip_reasoning=enforcement.reasoning == "off",
        reasoning_budget=enforcement.reasoning_budget,
        budget=budget + len(accepted),
        accepted=accepted,
        excluded=request.excluded,
        call_tokens=enforcement.call_tokens,
        repetition_tokens=REPETITION_TOKENS if enforcement.repetition_guard else 0,
        content=enforcement.content,
        earlier_calls=enforcement.earlier_calls,
        id_seed=enforcement.id_seed,
        choice_number=enforcement.first_choice,
        min_tokens=sampling.min_tokens,
        # With ignore_eos, the end of the turn is masked until the budget is used up.
        ignore_end=sampling.ignore_eos,
        stop_ids=_stop_ids(sampling, vocabulary),
        bad_words=_bad_words(sampling, vocabulary),
    )
    names = [candidate.name for candidate in enforcement.candidates]
    asked = sampling.max_tokens if sampling.max_tokens == budget else None
    check_budget(spec, least_tokens, vocabulary, asked_for=asked, names=names)
    return spec


def check_budget(
    spec: Spec,
    least_tokens: Callable[[str], int | None],
    vocabulary: Vocabulary,
    *,
    asked_for: int | None,
    names: Sequence[str] = (),
) -> None:
    """Raise BudgetTooSmall if no required call fits the budget. `names` are the tools' names, as
    `spec.keys` are their grammars' keys. `asked_for` is the request's max_tokens if that determines
    the budget."""
    if spec.choice != "required" or spec.budget is None:
        return
    if spec.accepted:
        return  # the request was checked when it was first sent
    tokens = vocabulary.call_tokens
    least = min(
        tokens.shortest_call(name, least_tokens(key) or 0, first=True)
        for key, name in zip(spec.keys, names or spec.keys, strict=True)
    )
    if spec.reasoning in ("open", "must"):
        least += tokens.reasoning_end_count
    if spec.reasoning == "must":
        least += len(tokens.reasoning_begin)
    left = spec.budget - len(spec.accepted)
    if left >= least:
        return
    room = "max_tokens" if asked_for else "The context left by the prompt"
    raise BudgetTooSmall(
        f"{room} allows {left} tokens, but the shortest required call takes {least}. Set "
        f"max_tokens to {least} or more, or shorten the prompt.",
        least=least,
        param="max_tokens" if asked_for else "messages",
    )


def sampling_params(
    sampling: wire.Sampling,
    spec: Spec | None,
    vocabulary: Vocabulary,
    defaults: dict[str, Any],
    *,
    budget: int,
    stream: bool,
    hooked: bool,
) -> SamplingParams:
    """vLLM's parameters, based on the model's own generation_config. `hooked` selects the automaton
    as vLLM's native grammar. Raise InvalidRequest."""
    check_token_ids(sampling, vocabulary.size)
    _check_allowed(sampling, spec, vocabulary)
    params = defaults | sampling.model_dump(exclude_none=True)
    if sampling.repetition_detection is not None:
        detection = sampling.repetition_detection.model_dump()
        params["repetition_detection"] = RepetitionDetectionParams(**detection)
    if sampling.logprob_token_ids is not None:
        params["logprobs"] = None  # vLLM reports either these or the requested token ids
    params |= {
        "max_tokens": budget,
        "stop_token_ids": list(sampling.stop_token_ids),
        "detokenize": False,
        "output_kind": RequestOutputKind.DELTA if stream else RequestOutputKind.FINAL_ONLY,
    }
    if spec is not None:
        if sampling.n > 1 and vocabulary.form.has_ids:
            params["seed"] = sampling.seed if sampling.seed is not None else secrets.randbits(31)
            spec = replace(spec, first_seed=params["seed"])
        marks = vocabulary.marks
        ours = [mark for mark in (marks.failure, marks.cut) if mark is not None]
        stops = {*spec.stop_ids} & vocabulary.special | {*ours, *vocabulary.added_ends}
        params |= {
            # The automaton enforces these. vLLM would ban the end of the turn that the automaton
            # forces, or stop at a token inside a call.
            "min_tokens": 0,
            "ignore_eos": False,
            "bad_words": [],
            "stop_token_ids": sorted(stops),
            "extra_args": spec.to_extra_args(),
        }
        if hooked:
            params["structured_outputs"] = vllm_host.structured_outputs_params()
    try:
        # vLLM refuses n > 1 with greedy sampling when the parameters are created, and in deep
        # copies. It can run such requests: the choices are equal, as with OpenAI.
        result = SamplingParams(**params | {"n": 1, "skip_clone": True})
        result.n = sampling.n
        return result
    except (ValueError, VLLMClientError) as error:
        raise client_error(error) from error


def budget_of(request: wire.GenerateRequest, prompt_tokens: int, config: Any) -> int:
    """Return the maximum number of tokens after the accepted ones. `config`: vLLM's ModelConfig.
    Raise ContextLengthExceeded."""
    context: int = config.max_model_len
    prompt_tokens += len(request.accepted)
    room, asked = context - prompt_tokens, request.sampling.max_tokens
    wanted = asked or config.get_diff_sampling_param().get("max_tokens")
    least = min(asked or 1, context // FIT_PART) if request.fit_max_tokens else asked
    if room < max(least or 1, 1):
        raise ContextLengthExceeded.of_tokens(
            context,
            prompt_tokens,
            asked if room >= 1 else None,
            param="messages" if room < 1 else "max_tokens",
        )
    return min(room, wanted or room)


def check_prompt_logprobs(sampling: wire.Sampling, prompt_tokens: int) -> None:
    """Raise InvalidRequest for a response with more than MAX_PROMPT_LOGPROBS."""
    entries = prompt_tokens * (1 + (sampling.prompt_logprobs or 0))
    if sampling.prompt_logprobs is not None and entries > wire.MAX_PROMPT_LOGPROBS:
        raise InvalidRequest(
            f"'prompt_logprobs' of {prompt_tokens:,} tokens with {sampling.prompt_logprobs} "
            f"alternatives each are {entries:,} entries, but at most {wire.MAX_PROMPT_LOGPROBS:,} "
            "are allowed. Shorten the prompt, or ask for fewer alternatives.",
            param="prompt_logprobs",
        )


def client_error(error: Exception) -> InvalidRequest:
    """vLLM's rejection of a parameter, as an error of the client."""
    return InvalidRequest(str(error), param=optional(error, "parameter"))


def _check_allowed(sampling: wire.Sampling, spec: Spec | None, vocabulary: Vocabulary) -> None:
    """Raise an error if `allowed_token_ids` conflicts with the enforcement, or contains no text."""
    if sampling.allowed_token_ids is None:
        return
    if not {*sampling.allowed_token_ids} - vocabulary.special:
        raise InvalidRequest(
            "'allowed_token_ids' contains special tokens only. Add at least one token that has "
            "text.",
            param="allowed_token_ids",
        )
    if spec is not None and (
        spec.choice != "none"
        or spec.content
        or spec.reasoning in ("open", "must")
        or spec.reasoning_budget is not None
    ):
        raise UnsupportedParameter(
            "'allowed_token_ids' is supported for plain content only. Remove it, or remove tools, "
            'response_format and reasoning ("reasoning_effort": "none").',
            param="allowed_token_ids",
        )


def _stop_ids(sampling: wire.Sampling, vocabulary: Vocabulary) -> tuple[int, ...]:
    marks = vocabulary.marks
    ours = {*marks.tokens.values()}
    for token in sampling.stop_token_ids:
        if token in ours or token in (marks.failure, marks.cut):
            raise UnsupportedParameter(
                f"'stop_token_ids' contains {token}, which is a mark that Toolgate enforces. "
                "Remove it.",
                param="stop_token_ids",
            )
        if token >= vocabulary.size:
            raise InvalidRequest(
                f"'stop_token_ids' contains {token}, but the vocabulary has only "
                f"{vocabulary.size} tokens.",
                param="stop_token_ids",
            )
    return sampling.stop_token_ids


def _bad_words(sampling: wire.Sampling, vocabulary: Vocabulary) -> tuple[tuple[int, ...], ...]:
    """Return the same tokenizations as in vLLM's SamplingParams: the word alone, and with a leading
    space if that changes its first token."""
    words: list[tuple[int, ...]] = []
    for word in sampling.bad_words:
        alone = vocabulary.encode(word.lstrip())
        spaced = vocabulary.encode(" " + word.lstrip())
        words.append(alone)
        if spaced and spaced[0] != alone[0] and len(spaced) == len(alone):
            words.append(spaced)
    return tuple(word for word in words if word)
