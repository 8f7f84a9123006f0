"""The files of the page and their headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.responses import Response
from starlette.types import Scope

from toolgate_proxy import page

STATIC = Path(page.__file__).with_name("static")
NAMES = sorted(str(each.relative_to(STATIC)) for each in STATIC.rglob("*") if each.is_file())
ELSEWHERE = re.compile(r"""(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z0-9.-]+\.[a-z]{2,}""", re.I)
"""An address of another host. The name of SVG's namespace is none that is loaded."""


async def ask(path: str, **headers: str) -> Response | None:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope: Scope = {"type": "http", "method": "GET", "path": path, "headers": pairs}
    return await page.answer(scope, path)


async def found(path: str, **headers: str) -> Response:
    response = await ask(path, **headers)
    assert response is not None, path
    return response


@pytest.mark.parametrize("path", ["/", *(page.ASSETS + n for n in NAMES)])
async def test_each_file_has_a_strict_policy_and_is_revalidated(path: str) -> None:
    response = await found(path)
    policy = dict(
        part.strip().split(" ", 1)
        for part in response.headers["content-security-policy"].split(";")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-cache"
    again = await found(path, if_none_match=response.headers["etag"])
    assert (again.status_code, bytes(again.body)) == (304, b"")
    assert again.headers["content-security-policy"] == response.headers["content-security-policy"]


@pytest.mark.parametrize("name", NAMES)
def test_files_name_no_other_host_and_have_no_inline_code(name: str) -> None:
    text = (STATIC / name).read_text(encoding="utf-8")
    assert ELSEWHERE.findall(text) == []
    if name.endswith(".html"):
        assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", text) == []
    if name.endswith(".js"):
        # What a gateway or a model returns must never be read as markup or as code.
        forbidden = (
            r"\.(?:inner|outer)HTML\b|insertAdjacentHTML|document\.write|\beval\(|Function\("
        )
        assert re.findall(forbidden, text) == []
        assert "localStorage" not in text


@pytest.mark.parametrize("name", [each for each in NAMES if each.endswith((".js", ".html"))])
def test_files_refer_to_files_that_exist(name: str) -> None:
    text = (STATIC / name).read_text(encoding="utf-8")
    folder = (STATIC / name).parent
    for imported in re.findall(r'from "(\.\.?/[^"]+)"', text):
        assert (folder / imported).resolve().relative_to(STATIC).as_posix() in NAMES
    linked = re.findall(r'"toolgate/page/([^"]+)"', text)
    assert {*linked} <= {*NAMES}


@pytest.mark.parametrize(
    "path",
    [
        "/index.html",
        "/toolgate/page/",
        "/toolgate/page/../files.py",
        "/toolgate/page//etc/passwd",
        "/toolgate/page/connect",
        "/toolgate/page/\0",
        "/toolgate/page/%2e%2e",
        "/ui",
    ],
)
async def test_other_paths_are_not_the_pages(path: str) -> None:
    assert await ask(path) is None


async def test_a_release_with_other_files_has_other_tags() -> None:
    tags = {(await found(path)).headers["etag"] for path in ("/", f"{page.ASSETS}app.js")}
    assert len(tags) == 2
