"""Writing of generated pages, shared by the scripts `*_doc.py`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([\w-]+\.md)(#[\w-]+)?\)")


def relinked(text: str, page: Path) -> str:
    """Return `text` for `page`: links in the code have the names of pages, without folders."""
    places = {path.name: path for path in DOCS.rglob("*.md")}

    def link(match: re.Match[str]) -> str:
        target = os.path.relpath(places[match[1]], page.parent)
        return f"]({target}{match[2] or ''})"

    return LINK.sub(link, text)


def write_or_check(pages: dict[Path, str]) -> None:
    """Write `pages`. With `--check`, write nothing, and exit with 1 if a page is out of date."""
    if "--check" in sys.argv:
        sys.exit(any(not path.exists() or path.read_text() != text for path, text in pages.items()))
    for path, text in pages.items():
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
