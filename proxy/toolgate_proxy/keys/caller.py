"""Who sent a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..sealing import MASTER_KEY
from .key import Key


@dataclass(slots=True)
class Caller:
    key: Key | None = None
    """None for the master key, and before authentication."""
    require_key: Callable[[], None] | None = None
    """Raises RetiredKey if the key was revoked since the request began. None without `key`."""
    identity: str | None = None
    """Who sent the request, if LiteLLM's or another authentication is configured."""
    authenticated: bool = False
    """Toolgate authenticated the request. False if LiteLLM's configuration uses another
    authentication."""

    @property
    def sender(self) -> str:
        """The key of the request, or who sent it, among which shared workers are divided."""
        return self.key.id if self.key is not None else self.identity or ""

    @property
    def name(self) -> str | None:
        """The alias of the key; None without a valid key, and if LiteLLM's configuration uses
        another authentication."""
        if self.key is not None:
            return self.key.alias
        return "master" if self.authenticated else None

    @property
    def team(self) -> str | None:
        return None if self.key is None else self.key.terms.team

    @property
    def owner(self) -> str:
        """Who may use the data that the request creates: the team of its key, or the key. Empty
        without an authenticated sender."""
        if self.key is not None:
            return f"team {self.team}" if self.team else f"key {self.key.id}"
        if self.authenticated:
            return MASTER_KEY
        return "" if self.identity is None else f"caller {self.identity}"
