"""Fallbacks as a request, a key or LiteLLM's configuration names them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from toolgate_core.errors import UnsupportedParameter

from ...request_fields import invalid_value
from ..control_fields import is_control
from .router import router_settings

try:
    from litellm.router_api import request_fallback_chain
except ImportError:
    from .long_term import request_fallback_chain

NAME = "fallbacks"
CONTEXT = "context_window_fallbacks"
CONFIGURED = (NAME, CONTEXT)
"""LiteLLM's fields. `content_policy_fallbacks` apply to errors that our models do not have."""
EXPECTED = "an array of models"
MAX_REQUESTED = 20
"""Maximum number of fallbacks in a request."""
MAX_NAME = 256
"""Maximum length of the name of a model in a request, in characters."""


@dataclass(frozen=True)
class Fallback:
    model: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the request that are replaced."""


FallbackEntry = Fallback | Mapping[str, Sequence[Fallback]]
"""A fallback of every model, or those of one model ("*": of every model without its own)."""


def requested_fallbacks(body: Mapping[str, Any]) -> list[FallbackEntry]:
    """Return the request's own fallbacks. Raise InvalidRequest and UnsupportedParameter."""
    given = body[NAME]
    if not isinstance(given, list) or len(given) > MAX_REQUESTED:
        raise invalid_value(NAME, f"{EXPECTED}, at most {MAX_REQUESTED}", given)
    entries: list[FallbackEntry] = []
    for at, value in enumerate(given):
        path, entry = f"{NAME}[{at}]", _entry(value)
        named = [] if entry is None else all_of([entry])
        long = len(named) > MAX_REQUESTED or any(len(each.model) > MAX_NAME for each in named)
        if entry is None or long:
            raise invalid_value(path, "a model, or an object with a model", value)
        for name in (name for fallback in named for name in fallback.parameters):
            if is_control(name):
                raise UnsupportedParameter(
                    f"{name!r} cannot be set per request. Remove it from {path!r}.", param=path
                )
        if entries and isinstance(entry, Fallback) != isinstance(entries[0], Fallback):
            raise invalid_value(path, "in the form of the entry before it", value)
        entries.append(entry)
    return entries


def all_of(entries: Iterable[FallbackEntry]) -> list[Fallback]:
    """Return every fallback of the entries, also those of other models than the request's."""
    lists = ([[each]] if isinstance(each, Fallback) else each.values() for each in entries)
    return [*chain.from_iterable(chain.from_iterable(lists))]


def configured_parameters(model: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters that the configured fallbacks of a model replace, each with the name of
    the setting."""
    for name in CONFIGURED:
        for fallback in fallbacks_of(configured(name, {}) or (), model):
            yield from ((name, parameter) for parameter in fallback.parameters)


def configured(name: str, of_key: Mapping[str, Any]) -> list[FallbackEntry] | None:
    """Return the entries of one of LiteLLM's fields. `of_key`: the settings of the key. The
    gateway's start reports invalid ones."""
    held = router_settings()
    of_router = {NAME: held.fallbacks, CONTEXT: held.context_window_fallbacks}
    if (given := of_key.get(name) or of_router[name]) is None:
        return None
    read = map(_entry, given if isinstance(given, list) else ())
    return [entry for entry in read if entry is not None]


def fallbacks_of(
    entries: Sequence[FallbackEntry], model: str, first: str | None = None
) -> list[Fallback]:
    """Return the fallbacks of a model, otherwise those of the first model of the request, otherwise
    those of "*"."""
    by_model = [entry for entry in entries if not isinstance(entry, Fallback)]
    if not by_model:
        return all_of(entries)
    request = {"metadata": {"original_model_group": first}}
    found, _ = request_fallback_chain(by_model, request, model)
    return list(found or ())


def _entry(given: Any) -> FallbackEntry | None:
    """Return an entry of an array of fallbacks: a model, an object with a model and parameters, or
    {"model": ["other", …]}; None for anything else. Both permissions and routing use what this
    returns, so that a key never gets a model that was not checked."""
    if isinstance(given, str):
        return Fallback(given)
    if not isinstance(given, Mapping):
        return None
    if isinstance(given.get("model"), str):
        parameters = {name: value for name, value in given.items() if name != "model"}
        return Fallback(given["model"], parameters)
    name, listed = next(iter(given.items()), ("", None))
    read = [_entry(each) for each in listed] if isinstance(listed, list) else [None]
    models = [each for each in read if isinstance(each, Fallback)]
    return {name: models} if len(models) == len(read) and len(given) == 1 else None
