"""Writing of generated pages, shared by the scripts `*_doc.py`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def write_or_check(pages: dict[Path, str]) -> None:
    """Write `pages`. With `--check`, write nothing, and exit with 1 if a page is out of date."""
    if "--check" in sys.argv:
        sys.exit(any(not path.exists() or path.read_text() != text for path, text in pages.items()))
    for path, text in pages.items():
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
