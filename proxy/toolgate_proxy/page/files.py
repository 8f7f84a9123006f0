"""The files of the page, in memory, and the headers that each response has.

The page needs no key: the files are the same for everybody and have no data of the gateway. Their
scripts send the key that a person types in to the routes that have data.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from .openapi import document

ASSETS = "/toolgate/page/"
OPENAPI = "/toolgate/openapi.json"
PAGES: Mapping[str, str] = {"/": "index.html", "/docs": "reference.html"}
PATHS = re.compile(rf"/|/docs|{re.escape(OPENAPI)}|{ASSETS}.+", re.DOTALL)
MEDIA_TYPES: Mapping[str, str] = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
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
    tag: str
    """The entity tag of the content, which clients send in `if-none-match`."""

    @classmethod
    def of(cls, content: bytes, media_type: str) -> File:
        return cls(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')

    def response(self, scope: Scope) -> Response:
        headers = {**HEADERS, "etag": self.tag}
        if Headers(scope=scope).get("if-none-match") == self.tag:
            return Response(None, 304, headers)
        return Response(self.content, 200, headers, self.media_type)


def answer(scope: Scope, path: str) -> Response | None:
    """Return the file at one of PATHS, or None if there is no such file. `path`: without the root
    path."""
    if path in PAGES:
        return _files()[PAGES[path]].response(scope)
    if path == OPENAPI:
        return _openapi().response(scope)
    found = _files().get(path.removeprefix(ASSETS))
    return found.response(scope) if found is not None else None


@cache
def _files() -> Mapping[str, File]:
    """Return all files by their path below the folder."""
    return {
        name: File.of(each.read_bytes(), MEDIA_TYPES[name.rpartition(".")[2]])
        for name, each in _below(resources.files(__package__) / "static", "")
    }


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _below(each, f"{path}{each.name}/")
        else:
            yield f"{path}{each.name}", each


@cache
def _openapi() -> File:
    return File.of(document(), "application/json")
