"""The files of the page, and the headers that each response has.

The page needs no key: the files are the same for everybody and have no data of the gateway. Their
scripts send the key that a person types in to the routes that have data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

ASSETS = "/toolgate/page/"
PATHS = re.compile(rf"/|{ASSETS}.+", re.DOTALL)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    # Browsers ask whether the file has changed. Another release has other files.
    "cache-control": "no-cache",
}
_FILES = StaticFiles(directory=Path(__file__).with_name("static"))


async def answer(scope: Scope, path: str) -> Response | None:
    """Return the file at one of PATHS, or None without one. `path`: without the root path."""
    try:
        response = await _FILES.get_response(
            "index.html" if path == "/" else path.removeprefix(ASSETS), scope
        )
    except HTTPException:
        return None
    response.headers.update(HEADERS)
    return response
