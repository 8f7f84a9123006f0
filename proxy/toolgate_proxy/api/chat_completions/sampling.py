"""The sampling parameters of a request, and what ends its content."""

from __future__ import annotations

import re

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ...request_fields import Fields, as_integer, as_number

MAX_STOPS = 64
"""OpenAI takes four, vLLM any number. Each is looked for in every delta of the content."""
MAX_BAD_WORDS = 1000
MAX_TOP_LOGPROBS = 20
MAX_CHOSEN = 1000
"""Of logprobs by token id: they are gathered for every token of the answer."""
INT64 = (-(2**63), 2**63 - 1)
MOST = 2**31 - 1
"""Of counts and token ids: what the engine's messages and tensors hold."""
TOKEN_ID = re.compile(r"[0-9]{1,10}")


def sampling(fields: Fields, *, stream: bool = False) -> wire.Sampling:
    limit = fields.integer("max_completion_tokens", 1)
    limit = fields.integer("max_tokens", 1) if limit is None else limit
    return wire.Sampling(
        n=fields.integer("n", 1, 128) or 1,
        max_tokens=limit,
        min_tokens=fields.integer("min_tokens", 0, MOST if limit is None else limit) or 0,
        temperature=fields.number("temperature", 0),
        top_p=fields.number("top_p", 0, 1, above=True),
        top_k=fields.integer("top_k", -1, MOST),
        min_p=fields.number("min_p", 0, 1),
        presence_penalty=fields.number("presence_penalty", -2, 2),
        frequency_penalty=fields.number("frequency_penalty", -2, 2),
        repetition_penalty=fields.number("repetition_penalty", 0, above=True),
        seed=fields.integer("seed", *INT64),
        stop_token_ids=_stop_token_ids(fields),
        ignore_eos=fields.flag("ignore_eos") or False,
        bad_words=_bad_words(fields),
        logit_bias=_logit_bias(fields),
        logprobs=_logprobs(fields),
        logprob_token_ids=_chosen_logprobs(fields),
        prompt_logprobs=_prompt_logprobs(fields, stream=stream),
        allowed_token_ids=_allowed_token_ids(fields),
        repetition_detection=_repetition_detection(fields),
    )


def stop_strings(fields: Fields) -> tuple[str, ...]:
    stop = fields.values.get("stop")
    stops = [stop] if isinstance(stop, str) else stop or []
    if (
        not isinstance(stops, list)
        or len(stops) > MAX_STOPS
        or not all(isinstance(text, str) and text for text in stops)
    ):
        raise fields.wrong("stop", f"a string or up to {MAX_STOPS} of them, none of them empty")
    return tuple(stops)


def _stop_token_ids(fields: Fields) -> tuple[int, ...]:
    return _token_ids(fields, "stop_token_ids") or ()


def _token_ids(fields: Fields, name: str) -> tuple[int, ...] | None:
    given = fields.items(name)
    if given is None:
        return None
    ids = [as_integer(token) for token in given]
    known = tuple(token for token in ids if token is not None and 0 <= token <= MOST)
    if len(known) != len(ids):
        raise fields.wrong(name, "an array of token ids")
    return known


def _allowed_token_ids(fields: Fields) -> tuple[int, ...] | None:
    ids = _token_ids(fields, "allowed_token_ids")
    if ids == ():
        raise fields.wrong("allowed_token_ids", "an array of at least one token id")
    if ids is not None and fields.values.get("bad_words"):
        raise UnsupportedParameter(
            "'allowed_token_ids' can't be combined with 'bad_words': together they could leave "
            "nothing.",
            param="allowed_token_ids",
        )
    return ids


def _chosen_logprobs(fields: Fields) -> tuple[int, ...] | None:
    ids = _token_ids(fields, "logprob_token_ids") or None
    if ids and not fields.flag("logprobs"):
        raise InvalidRequest(
            "'logprob_token_ids' needs 'logprobs': true.", param="logprob_token_ids"
        )
    if ids and len(ids) > MAX_CHOSEN:
        raise fields.wrong("logprob_token_ids", f"an array of up to {MAX_CHOSEN} token ids")
    return ids


def _prompt_logprobs(fields: Fields, *, stream: bool) -> int | None:
    top = fields.integer("prompt_logprobs", 0, MAX_TOP_LOGPROBS)
    if top is not None and stream:
        raise InvalidRequest(
            "'prompt_logprobs' come with answers that are not streamed.", param="prompt_logprobs"
        )
    return top


def _repetition_detection(fields: Fields) -> wire.RepetitionDetection | None:
    """vLLM's object: a pattern of `min_pattern_size` to `max_pattern_size` tokens that comes
    `min_count` times in a row ends the choice."""
    given = fields.mapping("repetition_detection")
    if given is None:
        return None
    inner = Fields(given, "repetition_detection")
    for name in given:
        if name not in wire.RepetitionDetection.model_fields:
            path = inner.path(name)
            raise UnsupportedParameter(f"The parameter {path!r} is not known.", param=path)
    least = inner.integer("min_pattern_size", 1, MOST) or 1
    most = inner.integer("max_pattern_size", least, MOST)
    if most is None:
        raise inner.wrong("max_pattern_size", f"an integer of at least {least}")
    count = inner.integer("min_count", 2, MOST) or 2
    return wire.RepetitionDetection(max_pattern_size=most, min_pattern_size=least, min_count=count)


def _bad_words(fields: Fields) -> tuple[str, ...]:
    words = fields.items("bad_words") or []
    if len(words) > MAX_BAD_WORDS or not all(
        isinstance(word, str) and word.strip() for word in words
    ):
        raise fields.wrong("bad_words", f"an array of up to {MAX_BAD_WORDS} words, none empty")
    return tuple(words)


def _logit_bias(fields: Fields) -> dict[int, float] | None:
    """JSON's keys are strings: {"50256": -100}."""
    given = fields.mapping("logit_bias")
    if not given:
        return None
    biases: dict[int, float] = {}
    for key, value in given.items():
        bias = as_number(value)
        if not (isinstance(key, str) and TOKEN_ID.fullmatch(key)) or bias is None:
            raise fields.wrong("logit_bias", "an object of numbers by token id")
        if not -100 <= bias <= 100:
            raise fields.wrong("logit_bias", "an object of numbers from -100 to 100")
        biases[int(key)] = bias
    return biases


def _logprobs(fields: Fields) -> int | None:
    """How many alternatives a token's logprobs come with; None where none are asked for."""
    wanted = fields.flag("logprobs")
    top = fields.integer("top_logprobs", 0, MAX_TOP_LOGPROBS)
    if wanted:
        return top or 0
    if top:
        raise InvalidRequest("'top_logprobs' needs 'logprobs': true.", param="top_logprobs")
    return None
