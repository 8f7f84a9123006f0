"""Citations of the pages that web searches of a response have found: a text cites a page where it
has the page's address."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .web_search import Page

MORE = r"(?![\w%&=#?~+@-]|[./:]\w)"
"""What would continue an address."""


@dataclass(frozen=True)
class Citation:
    page: Page
    start: int
    end: int
    """Of the address, in characters of the text."""


@dataclass
class FoundPages:
    """Those of all searches of a response so far."""

    _pages: dict[str, Page] = field(default_factory=dict)
    """By address."""

    def add(self, pages: Iterable[Page]) -> None:
        self._pages = {page.url: page for page in pages} | self._pages

    def cited(self, text: str) -> list[Citation]:
        """Return the citations in a text, in their order."""
        if not self._pages:
            return []
        longest_first = sorted(self._pages, key=len, reverse=True)
        address = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))}){MORE}")
        return [Citation(self._pages[found[0]], *found.span()) for found in address.finditer(text)]
