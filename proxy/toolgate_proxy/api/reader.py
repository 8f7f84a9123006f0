"""Read the body of any API as a chat request, by the settings of the gateway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgate_core.chat_request import ChatRequest

from ..chat.request.invalid_tools import InvalidTools, without
from ..context import RequestContext
from ..routing.cache_salts import CacheSalts
from ..settings import Settings
from .surface import ANY_CLIENT, Client, Surface


class RequestReader:
    """The only way from a body to a chat request: own route, LiteLLM's route and playground."""

    def __init__(self, settings: Settings, salts: CacheSalts) -> None:
        self._settings = settings
        self._salts = salts

    def read(
        self,
        surface: Surface,
        body: Mapping[str, Any],
        context: RequestContext,
        *,
        model: str,
        owner: str,
        client: Client = ANY_CLIENT,
        recalled: int = 0,
    ) -> ChatRequest:
        """Return the request without hosted and invalid tools, if the settings omit them, and note
        in the context what was left out. `model`: the backend's name of the model. `owner`: whose
        part of the prefix cache the request uses. `recalled`: as `surface.recall` returned it.

        Raise InvalidRequest, InvalidTools and UnsupportedParameter."""
        settings = self._settings
        invalid = InvalidTools(context, omit=settings.invalid_tools == "omit")
        request = surface.parse(
            body,
            model=model,
            open_objects=settings.open_objects,
            omit_hosted=settings.hosted_tools == "omit",
            on_invalid=invalid.leave_out,
            client=client,
            recalled=recalled,
        )
        request = self._salts.salted(without(request, invalid.errors), owner)
        context.note_request(request)
        return request
