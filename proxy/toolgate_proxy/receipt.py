"""The receipt: response headers that say how an answer was held to its tools.

`x-request-id`: the client's own, or one made here; the backend's logs have it too.
`x-toolgate-grammar: <tier>; n=<grammars>; ms=<time spent on having them loaded>`, where the tier is
the slowest that was needed.
`x-toolgate-enforced: full | residual | none`: the masks held all of the tools' schemas; they left
some keywords open, and calls of those tools are checked before they are sent; there were no tools.
`x-toolgate-residual: <tools with such keywords>; keywords=<the keywords>`, where there are any.
`x-toolgate-resamples: <times a choice was sampled again>`, in a stream those before its beginning.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core.wire import ResidualKeyword

REQUEST_ID = "x-request-id"
FIT = re.compile(r"[A-Za-z0-9_.:/=+-]{1,128}")
"""What goes into logs and headers as it came."""

Tier = Literal["memory", "redis", "compiled"]
TIERS: tuple[Tier, ...] = ("memory", "redis", "compiled")
"""Where a grammar was found, the cheapest first."""

KEYWORD = re.compile(r"[$A-Za-z]{1,64}")


def slowest(*tiers: Tier) -> Tier:
    return max(tiers, key=TIERS.index, default="memory")


@dataclass
class Receipt:
    """Filled in by the provider as it goes along."""

    request_id: str | None = None
    enforced: Literal["full", "residual", "none"] | None = None
    residual_tools: int = 0
    residual_keywords: tuple[str, ...] = ()
    resamples: int = 0
    grammars: int = 0
    tier: Tier = "memory"
    milliseconds: float = 0.0
    """Over all the times that grammars had to be loaded for the request."""

    def note(self, grammars: int, tier: Tier, milliseconds: float) -> None:
        self.grammars = grammars
        self.tier = slowest(self.tier, tier)
        self.milliseconds += milliseconds

    def enforced_by(
        self,
        held: object,
        residual: Mapping[str, Sequence[ResidualKeyword]],
    ) -> None:
        """`held`: whether anything is; `residual`: by tool, what its masks leave open."""
        self.enforced = "residual" if residual else "full" if held else "none"
        self.residual_tools = len(residual)
        names = {each.keyword for left in residual.values() for each in left}
        names = {name for name in names if KEYWORD.fullmatch(name)}  # fit for a header
        self.residual_keywords = tuple(sorted(names))

    def headers(self) -> dict[str, str]:
        told = {} if self.request_id is None else {REQUEST_ID: self.request_id}
        if self.enforced is None:
            return told
        told["x-toolgate-enforced"] = self.enforced
        if self.grammars:
            ms = f"{self.milliseconds:.1f}"
            told["x-toolgate-grammar"] = f"{self.tier}; n={self.grammars}; ms={ms}"
        if self.residual_tools:
            keywords = ",".join(self.residual_keywords)
            told["x-toolgate-residual"] = f"{self.residual_tools}; keywords={keywords}"
        if self.resamples:
            told["x-toolgate-resamples"] = str(self.resamples)
        return told


def _request_id(given: str | None) -> str:
    return given if given and FIT.fullmatch(given) else f"req_{secrets.token_hex(16)}"


_current: ContextVar[Receipt | None] = ContextVar("toolgate_receipt", default=None)


def current() -> Receipt:
    """The receipt of the request at hand; one that nobody reads, outside of our gateway."""
    return _current.get() or Receipt()


@dataclass
class Receipts:
    """ASGI middleware: hands a receipt to the request, and its headers to the response.

    LiteLLM 1.106.2 renames what a provider puts into its own place for headers
    (litellm_core_utils/core_helpers.py:489: `llm_provider-…`). A context variable set out here is
    seen by the tasks in there, which begin with copies of this context and share the object.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        receipt = Receipt(_request_id(Headers(scope=scope).get(REQUEST_ID)))
        token = _current.set(receipt)

        async def send_with_receipt(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(receipt.headers())
            await send(message)

        try:
            await self.app(scope, receive, send_with_receipt)
        finally:
            _current.reset(token)
