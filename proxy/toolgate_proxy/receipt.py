"""The receipt: response headers that say how an answer was held to its tools.

`x-toolgate-grammar: <tier>; n=<grammars>; ms=<time spent on having them loaded>`, where the tier is
the slowest that was needed.
`x-toolgate-enforced: full | residual | none`: the masks held all of the tools' schemas; they left
some keywords open, and calls of those tools are checked before they are sent; there were no tools.
`x-toolgate-residual: <tools with such keywords>; keywords=<the keywords>`, where there are any.
`x-toolgate-resamples: <times a choice was sampled again>`, in a stream those before its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolgate_core.wire import ResidualKeyword

Tier = Literal["memory", "redis", "compiled"]
TIERS: tuple[Tier, ...] = ("memory", "redis", "compiled")
"""Where a grammar was found, the cheapest first."""

KEYWORD = re.compile(r"[$A-Za-z]{1,64}")


def slowest(*tiers: Tier) -> Tier:
    return max(tiers, key=TIERS.index, default="memory")


@dataclass
class Receipt:
    """Filled in by the provider as it goes along."""

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
        if self.enforced is None:
            return {}
        told: dict[str, str] = {"x-toolgate-enforced": self.enforced}
        if self.grammars:
            ms = f"{self.milliseconds:.1f}"
            told["x-toolgate-grammar"] = f"{self.tier}; n={self.grammars}; ms={ms}"
        if self.residual_tools:
            keywords = ",".join(self.residual_keywords)
            told["x-toolgate-residual"] = f"{self.residual_tools}; keywords={keywords}"
        if self.resamples:
            told["x-toolgate-resamples"] = str(self.resamples)
        return told


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
        receipt = Receipt()
        token = _current.set(receipt)

        async def send_with_receipt(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(receipt.headers())
            await send(message)

        try:
            await self.app(scope, receive, send_with_receipt)
        finally:
            _current.reset(token)
