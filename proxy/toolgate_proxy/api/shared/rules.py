"""What parameters mean together: the rules between them, the sampling, whether the model reasons
and for how many tokens at most, and the arguments of the chat template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest

from ...request_fields import Fields
from .parameter import ParsedParameters

MAX_LOGPROBS = 512
"""Most logprobs of one token of each of several choices: 20 alternatives with `n` of 24, or 3
with 128. More would occupy the gateway and the engine for longer than the tokens themselves."""
PLAIN_ONLY = ("allowed_token_ids", "repetition_detection")
"""Parameters for plain content. In a call or a format they could prevent required tokens."""
BODY = Fields({})
"""Makes the errors of parameters, whose paths are their names."""


def check_combination(values: Mapping[str, Any], constraints: Iterable[str]) -> None:
    """`constraints`: the parameters that add calls or a format. Raise InvalidRequest for options of
    a stream without a stream, and UnsupportedParameter for what only plain content can have."""
    if "stream_options" in values and not values.get("stream"):
        problem = "requires a stream. Set 'stream' to true."
        raise BODY.refusal("stream_options", problem, InvalidRequest)
    for name in filter(values.__contains__, PLAIN_ONLY):
        for other in filter(values.get, constraints):
            raise BODY.refusal(name, f"cannot be combined with {other!r}. Remove one of them.")


def make_sampling(parsed: ParsedParameters) -> wire.Sampling:
    """Raise InvalidRequest or UnsupportedParameter for parameters that contradict each other."""
    values, sampling = parsed.values, parsed.sampling
    _check_lengths(sampling)
    _check_logprobs(values, sampling)
    if parsed.request.get("stream") and "prompt_logprobs" in sampling:
        problem = "is not available in a stream. Set 'stream' to false."
        raise BODY.refusal("prompt_logprobs", problem, InvalidRequest)
    if sampling.get("top_p") == 0:  # vLLM has no such nucleus
        sampling |= {"top_p": None, "top_k": 1}
    if sampling.get("bad_words") and "allowed_token_ids" in sampling:
        problem = "cannot be combined with 'bad_words', because the two could exclude every token."
        raise BODY.refusal("allowed_token_ids", f"{problem} Remove one of them.")
    if "repetition_detection" in sampling:
        _check_pattern_sizes(sampling["repetition_detection"])
    return wire.Sampling(**sampling)


def _check_lengths(sampling: dict[str, Any]) -> None:
    least, most = sampling.get("min_tokens"), sampling.get("max_tokens")
    if least is not None and most is not None and least > most:
        problem = f"({least}) must not exceed 'max_tokens' ({most})."
        advice = "Lower 'min_tokens' or raise 'max_tokens'."
        raise BODY.refusal("min_tokens", f"{problem} {advice}", InvalidRequest)


def _check_logprobs(values: dict[str, Any], sampling: dict[str, Any]) -> None:
    problem = "requires 'logprobs'. Set 'logprobs' to true."
    if values.get("logprobs"):
        sampling.setdefault("logprobs", 0)
    elif sampling.pop("logprobs", None):
        raise BODY.refusal("top_logprobs", problem, InvalidRequest)
    if not sampling.get("logprob_token_ids"):
        sampling.pop("logprob_token_ids", None)
    elif "logprobs" not in sampling:
        raise BODY.refusal("logprob_token_ids", problem, InvalidRequest)
    if (n := sampling.get("n", 1)) > 1 and "logprobs" in sampling:
        entries = 1 + max(sampling["logprobs"], len(sampling.get("logprob_token_ids", ())))
        if n * entries > MAX_LOGPROBS:
            most = f"{entries} logprobs for each token exceed {MAX_LOGPROBS} at a time"
            problem = f"({n}) choices with {most}. Lower 'n' or the number of alternatives."
            raise BODY.refusal("n", problem, InvalidRequest)


def _check_pattern_sizes(detection: dict[str, int]) -> None:
    least, most = detection.get("min_pattern_size", 1), detection["max_pattern_size"]
    if least > most:
        raise InvalidRequest(
            f"'repetition_detection.min_pattern_size' ({least}) must not exceed "
            f"'max_pattern_size' ({most}).",
            param="repetition_detection.max_pattern_size",
        )


EFFORT_BUDGETS: dict[str, int | None] = {
    "none": None,
    "minimal": 512,
    "low": 2048,
    "medium": 8192,
    "high": None,
    "xhigh": None,
    "max": None,
    "ultra": None,
}
"""Budget of reasoning tokens by effort, unless the request sets a budget. Open models were trained
to reason without a budget, so the higher efforts have none."""


def reasoning_mode(values: Mapping[str, Any]) -> wire.ReasoningMode:
    """Return whether the model reasons. The first of these decides: `enable_thinking` in
    `chat_template_kwargs`, `enable_thinking`, `reasoning_effort` (this order is vLLM's),
    `thinking`."""
    enabled = None
    if kwargs := values.get("chat_template_kwargs"):
        enabled = Fields(kwargs, "chat_template_kwargs").flag("enable_thinking")
    if enabled is None:
        enabled = values.get("enable_thinking")
    if enabled is None and (effort := values.get("reasoning_effort")) is not None:
        enabled = effort != "none"
    if enabled is None and (thinking := values.get("thinking")) is not None:
        enabled = thinking["type"] != "disabled"
    if enabled is None:
        return "default"
    return "on" if enabled else "off"


def reasoning_budget(values: Mapping[str, Any]) -> int | None:
    """Return the maximum number of reasoning tokens."""
    budget: int | None = values.get("reasoning_budget", values.get("thinking_token_budget"))
    if budget is not None:
        return budget if budget >= 0 else None
    budget = values.get("thinking", {}).get("budget_tokens")
    if budget is not None:
        return budget
    return EFFORT_BUDGETS[values.get("reasoning_effort", "none")]


RESERVED_TEMPLATE_KWARGS = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "messages",
        "tokenize",
        "tools",
    }
)


def template_kwargs(values: Mapping[str, Any], mode: wire.ReasoningMode) -> dict[str, Any] | None:
    """Return the arguments of the chat template besides messages and tools."""
    given = values.get("chat_template_kwargs", {})
    for name in RESERVED_TEMPLATE_KWARGS.intersection(given):
        problem = "is set by the gateway and cannot be set by a request. Remove it."
        raise BODY.refusal(f"chat_template_kwargs.{name}", problem)
    kwargs = {name: value for name, value in given.items() if name != "enable_thinking"}
    if (effort := values.get("reasoning_effort")) is not None:
        kwargs.setdefault("reasoning_effort", effort)
    if mode != "default":
        kwargs["enable_thinking"] = mode == "on"
    if (documents := values.get("documents")) is not None:
        kwargs.setdefault("documents", documents)
    return kwargs | _prompt_end(values) or None


def _prompt_end(values: Mapping[str, Any]) -> dict[str, Any]:
    """vLLM requires `add_generation_prompt: false` beside `continue_final_message`. Here it may be
    left out."""
    generation = values.get("add_generation_prompt")
    if values.get("continue_final_message"):
        if generation:
            problem = "and 'add_generation_prompt' cannot both be true. Remove the latter."
            raise BODY.refusal("continue_final_message", problem, InvalidRequest)
        return {"continue_final_message": True, "add_generation_prompt": False}
    return {} if generation is None else {"add_generation_prompt": generation}
