"""The fallbacks of a request, the models to which it goes on if its model fails, and the retries of
one model.

Fallbacks are those of LiteLLM's configuration, or the request's own. Which they are, their order
and their number are decided as in LiteLLM's router (`async_function_with_fallbacks_common_utils`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain
from typing import Any

import litellm
from litellm.router_utils import fallback_event_handlers

from toolgate_core.errors import (
    ContextLengthExceeded,
    InternalFault,
    InvalidKey,
    KeysUnavailable,
    LimitsUnavailable,
    RateLimited,
    ResponsesUnavailable,
    ToolgateError,
    UnsupportedParameter,
)

from ...request_fields import invalid_value
from ..control_fields import is_control
from ..errors import host_error
from .key_settings import RETRY_POLICY
from .router import router

NAME = "fallbacks"
CONTEXT_WINDOW = "context_window_fallbacks"
CONFIGURED = (NAME, CONTEXT_WINDOW)
"""LiteLLM's fields. `content_policy_fallbacks` apply to errors that our models do not have."""
CONTEXT_ONLY = tuple(map(int, version("litellm").split(".")[:2])) < (1, 110)
"""A prompt that is too long for a model has only the fallbacks for context, once any model has such
ones. From 1.110 on LiteLLM takes the others if the model has none."""
EXPECTED = "an array of models"
MAX_REQUESTED = 20
"""Maximum number of fallbacks in a request."""
MAX_NAME = 256
"""Maximum length of the name of a model in a request, in characters."""
OF_THE_KEY = (InvalidKey, RateLimited)
"""Errors that end the request, whichever model it is at."""
OF_THE_GATEWAY = (InternalFault, KeysUnavailable, LimitsUnavailable, ResponsesUnavailable)
FIRST_DELAY, MAX_DELAY = 0.5, 8.0
"""Seconds before a retry at the only backend of a model. The delay doubles, as in LiteLLM."""


@dataclass(frozen=True)
class Fallback:
    model: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the request that are replaced."""


Entry = Fallback | Mapping[str, Sequence[Fallback]]
"""A fallback of every model, or those of one model ("*": of every model without its own)."""


class Fallbacks:
    """The models of one request, in the order in which they are tried, and the retries of each.
    `requested`: the request's own, if it has some; `of_key`: settings of its key, which replace
    those of the router."""

    def __init__(
        self, requested: Sequence[Entry] | None = None, of_key: Mapping[str, Any] | None = None
    ) -> None:
        self.requested = requested
        self.of_key = of_key or {}
        self._pending: list[Fallback] = []
        self._seen: list[Fallback] = []
        self._retried = 0
        """Number of retries at the model."""
        self.current: Fallback | None = None
        """The one at which the request is; None: it is at its own model."""
        self.attempted = 0
        """Number of fallbacks that were tried."""
        self.first_model = ""
        self.first_error: ToolgateError | None = None
        """The error of the first model, which the client gets if all models fail."""

    async def retries(self, model: str, error: ToolgateError, backends: int) -> bool:
        """Return whether the model that failed is tried again. If it has one backend, this waits.

        LiteLLM's retry policies decide. Without one, the request has moved to the other backends
        of its model."""
        if self._retried >= self._allowed_retries(model, error):
            return False
        if backends == 1:
            await asyncio.sleep(min(FIRST_DELAY * 2**self._retried, MAX_DELAY))
        self._retried += 1
        return True

    def note_failure(self, model: str, error: ToolgateError) -> None:
        """Add the fallbacks of a model that failed. Raise an error of the key."""
        if isinstance(error, OF_THE_KEY):
            raise error
        if self.first_error is None:
            self.first_model, self.first_error = model, error
        self._seen.append(Fallback(model))
        if is_of_the_model(error) and self.attempted < router().max_fallbacks:
            self._pending[:0] = self._targets(model, error)

    async def next(self, may_use: Callable[[str], Awaitable[bool]]) -> Fallback | None:
        """Return the next model that was not tried and that the request may use."""
        self.current, self._retried = None, 0
        while self._pending:
            fallback = self._pending.pop(0)
            if fallback in self._seen:
                continue
            self._seen.append(fallback)
            if await may_use(fallback.model):
                self.attempted += 1
                self.current = fallback
                break
        return self.current

    def _allowed_retries(self, model: str, error: ToolgateError) -> int:
        held = router()
        by_model = self.of_key.get(RETRY_POLICY) or held.model_group_retry_policy
        if (held.retry_policy is None and not by_model) or not is_of_the_model(error):
            return 0
        allowed = litellm.get_num_retries_from_retry_policy(
            exception=host_error(error, model),
            model_group=model,
            model_group_retry_policy=by_model,
            retry_policy=held.retry_policy,
        )
        return allowed or 0

    def _targets(self, model: str, error: ToolgateError) -> list[Fallback]:
        requested, for_context = self.requested, self._configured(CONTEXT_WINDOW)
        if (
            isinstance(error, ContextLengthExceeded)
            and for_context is not None
            and not (requested and isinstance(requested[0], Fallback))
        ):
            found = _found(for_context, model, self.first_model)
            if found or CONTEXT_ONLY:
                return found
        fallbacks = self._configured(NAME) if requested is None else requested
        return _found(fallbacks or (), model, self.first_model)

    def _configured(self, name: str) -> list[Entry] | None:
        given = self.of_key.get(name) or getattr(router(), name, None)
        return None if given is None else _entries(given)


def requested_fallbacks(body: Mapping[str, Any]) -> list[Entry] | None:
    """Return the request's own fallbacks. Raise InvalidRequest and UnsupportedParameter."""
    given = body.get(NAME)
    if given is None:
        return None
    if not isinstance(given, list) or len(given) > MAX_REQUESTED:
        raise invalid_value(NAME, f"{EXPECTED}, at most {MAX_REQUESTED}", given)
    entries: list[Entry] = []
    for at, value in enumerate(given):
        path, entry = f"{NAME}[{at}]", _entry(value)
        named = [] if entry is None else all_of([entry])
        long = len(named) > MAX_REQUESTED or any(len(each.model) > MAX_NAME for each in named)
        if entry is None or long:
            raise invalid_value(path, "a model, or an object with a model", value)
        for name in (name for fallback in named for name in fallback.parameters):
            if is_control(name):
                raise UnsupportedParameter(
                    f"{name!r} can't be set per request. Remove it from {path!r}.", param=path
                )
        if entries and isinstance(entry, Fallback) != isinstance(entries[0], Fallback):
            raise invalid_value(path, "in the form of the entry before it", value)
        entries.append(entry)
    return entries


def all_of(entries: Iterable[Entry]) -> list[Fallback]:
    """Return every fallback of the entries, also those of other models than the request's."""
    lists = ([[each]] if isinstance(each, Fallback) else each.values() for each in entries)
    return [*chain.from_iterable(chain.from_iterable(lists))]


def configured_parameters(model: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters that the configured fallbacks of a model replace, each with the name of
    the setting."""
    for name in CONFIGURED:
        for fallback in _found(_entries(getattr(router(), name, None)), model):
            yield from ((name, parameter) for parameter in fallback.parameters)


def is_of_the_model(error: ToolgateError) -> bool:
    """Return whether another model may succeed. LiteLLM falls back after every error; a request
    that is invalid for one model is not sent to others."""
    if isinstance(error, OF_THE_GATEWAY):
        return False
    return isinstance(error, ContextLengthExceeded) or error.status == 429 or error.status >= 500


def _found(entries: Sequence[Entry], *models: str) -> list[Fallback]:
    """Return the fallbacks of the first model. Those of a later model have precedence over "*"."""
    by_model = [entry for entry in entries if not isinstance(entry, Fallback)]
    if not by_model:
        return all_of(entries)
    general: list[Fallback] = []
    for model in models:
        found, at = fallback_event_handlers.get_fallback_model_group(
            fallbacks=by_model, model_group=model
        )
        if found is not None and (at is None or found is not by_model[at]["*"]):
            return list(found)
        general = general if found is None else list(found)
    return general


def _entries(given: Any) -> list[Entry]:
    """Return the entries of LiteLLM's configuration. The gateway's start reports invalid ones."""
    read = map(_entry, given if isinstance(given, list) else ())
    return [entry for entry in read if entry is not None]


def _entry(given: Any) -> Entry | None:
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
