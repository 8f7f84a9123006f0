"""The files of the page, in memory, and the headers that each response has.

The page needs no key: the files are the same for everybody and have no data of the gateway. Their
scripts send the key that a person types in to the routes that have data.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

ASSETS = "/toolgate/page/"
PATHS = re.compile(rf"/|{ASSETS}.+", re.DOTALL)
MEDIA_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
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


@dataclass(frozen=True)
class File:
    content: bytes
    media_type: str

    @cached_property
    def tag(self) -> str:
        """The entity tag of the content, which clients send in `if-none-match`."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    def response(self, scope: Scope) -> Response:
        headers = {**HEADERS, "etag": self.tag}
        if Headers(scope=scope).get("if-none-match") == self.tag:
            return Response(None, 304, headers)
        return Response(self.content, 200, headers, self.media_type)


def answer(scope: Scope, path: str) -> Response | None:
    """Return the file at one of PATHS, or None if there is no such file. `path`: without the root
    path."""
    found = _files().get("index.html" if path == "/" else path.removeprefix(ASSETS))
    return found.response(scope) if found is not None else None


@cache
def _files() -> Mapping[str, File]:
    """Return the files of the page by their path below the folder."""
    folder = Path(__file__).with_name("static")
    return {
        each.relative_to(folder).as_posix(): File(each.read_bytes(), MEDIA_TYPES[each.suffix])
        for each in folder.rglob("*.*")
    }
