"""All API surfaces of the gateway, and how it reads requests to them by its settings."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial
from typing import Any

from ..chat.invalid_tools import LeftOut, without
from ..context import Notes, RequestContext
from ..features.all import LATER
from ..request.chat_request import ChatRequest
from ..sealing import Sealer
from ..settings import Settings
from .chat_completions.surface import ChatCompletions
from .messages.surface import Messages
from .responses.surface import Compact, Responses
from .surface import ANY_CLIENT, Client, Reading, Surface, Writer

COMPLETIONS, RESPONSES, MESSAGES = ChatCompletions(), Responses(), Messages()
COMPACT = Compact()
"""An operation of the Responses API."""
SURFACES: tuple[Surface, ...] = (COMPLETIONS, RESPONSES, MESSAGES)


def surface_of(path: str, headers: Container[str]) -> Surface | None:
    """Return the surface in whose form errors at this path are."""
    return next((surface for surface in SURFACES if surface.owns(path, headers)), None)


class RequestReader:
    """The only way from a body to a chat request: own route, LiteLLM's route and playground."""

    def __init__(self, settings: Settings, sealer: Sealer) -> None:
        self._settings = settings
        self._listed = settings.listed_tools
        self._sealer = None if settings.prefix_cache == "shared" else sealer

    def searching(self, surface: Surface, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body with a search for the tools that the settings leave out of the prompt."""
        return body if self._listed is None else surface.with_search(body, self._listed)

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
    ) -> tuple[ChatRequest, Writer]:
        """Return the request without hosted and invalid tools, if the settings omit them, and what
        writes its response. Note in `notes` what was left out. `model`: the backend's name of the
        model. `owner`: whose part of the prefix cache the request uses. `recalled`: as
        `surface.recall` returned it.

        Raise InvalidRequest, InvalidTools and UnsupportedParameter."""
        settings = self._settings
        invalid = LeftOut(notes, omit=settings.invalid_tools == "omit")
        reading = Reading(
            model,
            open_objects=settings.open_objects,
            omit_hosted=settings.hosted_tools == "omit",
            on_invalid=invalid.leave_out,
            client=client,
            recalled=recalled,
            salt=partial(self._salt, owner),
        )
        request, writer = surface.read(self.searching(surface, body), reading)
        notes.omitted_tools = writer.omitted_tools
        notes.history_changes = writer.history_changes
        return without(request, invalid.errors, notes), writer

    async def completed(
        self, request: ChatRequest, owner: str, context: RequestContext
    ) -> ChatRequest:
        """Return the request with the parts of its contents that are read last, such as the text of
        files. `owner`: the team or key that sent it. Raise ToolgateError."""
        for kind in request.part_types & LATER.keys():
            request = await LATER[kind](request, owner, context)
        return request

    def _salt(self, owner: str, own: str | None) -> str | None:
        """Return the salt of a request's owner, the team or key that sent it: vLLM shares a cached
        prefix only between requests that have the same salt. It is a keyed digest, the same at all
        gateways with the same secret, and tells a backend nothing about the owner. `own`: the
        client's `cache_salt`, which divides the cache of its owner further."""
        if self._sealer is None:
            return own
        return self._sealer.digest(f"{owner}\0{own or ''}", purpose="cache salt")
