"""Which pages a request, or the operator, allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Domains:
    allowed: Sequence[str] = ()
    """Domains of which pages may be. Empty: all."""
    blocked: Sequence[str] = ()

    def allow(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower().rstrip(".")
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not host:
            return False
        if self.allowed and not any(_is_within(host, parts.path, each) for each in self.allowed):
            return False
        return not any(_is_within(host, parts.path, each) for each in self.blocked)


def _is_within(host: str, path: str, domain: str) -> bool:
    """Return whether a page is of a domain, or of one below it. `domain` may have a path, as in
    Anthropic's API: `example.com/blog`."""
    name, _, below = domain.lower().strip().removeprefix("https://").partition("/")
    own = host == name or host.endswith(f".{name}")
    return own and (not below or path.lstrip("/").lower().startswith(below.rstrip("*")))
