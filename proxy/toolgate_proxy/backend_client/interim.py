"""A bound on the interim responses (1xx) before a response, which aiohttp reads without one."""

from __future__ import annotations

from itertools import count
from typing import Any

import aiohttp

from toolgate_core.errors import BackendFailed

from .body import ADVICE

MAX_INTERIM = 8


class BoundedResponse(aiohttp.ClientResponse):
    """Reading interim responses that have arrived never waits, so without end they would stop the
    event loop."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        """Raises BackendFailed."""
        protocol, number = connection.protocol, count(1)
        read = protocol.read

        async def bounded() -> Any:
            if next(number) > MAX_INTERIM + 1:
                raise BackendFailed(
                    f"The backend sent more than {MAX_INTERIM} interim responses. {ADVICE}"
                )
            return await read()

        protocol.read = bounded
        try:
            return await super().start(connection)
        finally:
            del protocol.read
