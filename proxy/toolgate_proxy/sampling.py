"""The sampling parameters of a request, and what ends its content."""

from __future__ import annotations

import re

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest

from .checks import Fields, as_integer, as_number

MAX_STOPS = 64
"""OpenAI takes four, vLLM any number. Each is looked for in every delta of the content."""
MAX_BAD_WORDS = 1000
MAX_TOP_LOGPROBS = 20
INT64 = (-(2**63), 2**63 - 1)
MOST = 2**31 - 1
"""Of counts and token ids: what the engine's messages and tensors hold."""
TOKEN_ID = re.compile(r"[0-9]{1,10}")


def sampling(fields: Fields) -> wire.Sampling:
    limit = fields.integer("max_completion_tokens", 1)
    return wire.Sampling(
        n=fields.integer("n", 1, 128) or 1,
        max_tokens=fields.integer("max_tokens", 1) if limit is None else limit,
        min_tokens=fields.integer("min_tokens", 0, MOST) or 0,
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
    ids = [as_integer(token) for token in fields.items("stop_token_ids") or []]
    known = tuple(token for token in ids if token is not None and 0 <= token <= MOST)
    if len(known) != len(ids):
        raise fields.wrong("stop_token_ids", "an array of token ids")
    return known


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
