"""Read the body of any API as a chat request, by the settings of the gateway."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from toolgate_core.chat_request import ChatRequest

from ..chat.request.invalid_tools import InvalidTools, without
from ..context import Notes
from ..sealing import Sealer
from ..settings import Settings
from .shared.chat_request import as_sent
from .surface import ANY_CLIENT, Client, Surface


class RequestReader:
    """The only way from a body to a chat request: own route, LiteLLM's route and playground."""

    def __init__(self, settings: Settings, sealer: Sealer) -> None:
        self._settings = settings
        self._sealer = None if settings.prefix_cache == "shared" else sealer

    def searching(self, surface: Surface, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body with a search for the tools that the settings leave out of the prompt."""
        listed = self._settings.listed_tools
        return body if listed is None else surface.with_search(body, listed)

    def read(
        self,
        surface: Surface,
        body: Mapping[str, Any],
        notes: Notes,
        *,
        model: str,
        owner: str,
        client: Client = ANY_CLIENT,
        recalled: int = 0,
    ) -> ChatRequest:
        """Return the request without hosted and invalid tools, if the settings omit them, and note
        in `notes` what was left out. `model`: the backend's name of the model. `owner`: whose
        part of the prefix cache the request uses. `recalled`: as `surface.recall` returned it.

        Raise InvalidRequest, InvalidTools and UnsupportedParameter."""
        settings = self._settings
        invalid = InvalidTools(notes, omit=settings.invalid_tools == "omit")
        request = surface.parse(
            self.searching(surface, body),
            model=model,
            open_objects=settings.open_objects,
            omit_hosted=settings.hosted_tools == "omit",
            on_invalid=invalid.leave_out,
            client=client,
            recalled=recalled,
            salt=as_sent if self._sealer is None else partial(salted, owner, self._sealer),
        )
        request = without(request, invalid.errors)
        notes.omitted_tools = request.omitted_tools
        notes.history_changes = request.history_changes
        return request


def salted(owner: str, sealer: Sealer, own: str | None) -> str:
    """Return the salt of a request's owner, the team or key that sent it: vLLM shares a cached
    prefix only between requests that have the same salt. It is a keyed digest, the same at all
    gateways with the same secret, and tells a backend nothing about the owner. `own`: the client's
    `cache_salt`, which divides the cache of its owner further."""
    return sealer.digest(f"{owner}\0{own or ''}", purpose="cache salt")
