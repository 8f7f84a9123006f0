"""The list of paths, the files of the page and their headers."""

import re
from pathlib import Path

import pytest

from toolgate_proxy.app import paths
from toolgate_proxy.ops import page
from toolgate_proxy.server.forwarding import Forwarding

STATIC = Path(page.__file__).with_name("static")
NAMES = sorted(str(each.relative_to(STATIC)) for each in STATIC.rglob("*") if each.is_file())
ELSEWHERE = re.compile(r"""(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z0-9.-]+\.[a-z]{2,}""", re.I)
"""An address of another host. The name of SVG's namespace is none that is loaded."""
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
}


async def litellm(scope, receive, send):
    raise AssertionError("No request is sent here.")


LINES = paths(Forwarding(litellm))


def line_of(method, path):
    scope = {"type": "http", "method": method, "path": path, "root_path": ""}
    return next((each for each in LINES if each.match(scope)), None)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.shown)
def test_each_line_answers_the_path_that_it_shows(line):
    methods, path = line.shown.split()
    for method in ("DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"):
        answers = methods == "*" or method in methods.split("|")
        assert (line_of(method, path) is line) == answers


@pytest.mark.parametrize(
    "request_",
    [
        *("GET /v1/chat/completions", "OPTIONS /unheard/of", "POST /v1/embeddings"),
        *("POST /v1/models", "GET /toolgate/status", "GET /toolgate/ready2", "GET /unheard/of"),
    ],
)
def test_other_requests_are_litellms(request_):
    assert line_of(*request_.split()) is None


async def ask(path, **headers):
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "headers": pairs}
    return await page.answer(scope, path)


async def test_each_file_has_a_strict_policy_and_is_revalidated():
    for path in ("/", *(page.ASSETS + name for name in NAMES)):
        headers = (await ask(path)).headers
        parts = headers["content-security-policy"].split(";")
        assert dict(part.strip().split(" ", 1) for part in parts) == POLICY, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-cache"
        again = await ask(path, if_none_match=headers["etag"])
        assert (again.status_code, bytes(again.body)) == (304, b"")
        assert again.headers["content-security-policy"] == headers["content-security-policy"]


@pytest.mark.parametrize("name", NAMES)
def test_files_name_no_other_host_have_no_inline_code_and_refer_to_files_that_exist(name):
    text = (STATIC / name).read_text(encoding="utf-8")
    assert ELSEWHERE.findall(text) == []
    if name.endswith(".html"):
        assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", text) == []
    if name.endswith(".js"):
        # What a gateway or a model returns must never be read as markup or as code.
        markup = r"\.(?:inner|outer)HTML\b|insertAdjacentHTML|document\.write|\beval\(|Function\("
        assert re.findall(markup, text) == []
        assert "localStorage" not in text
    if name.endswith((".js", ".html")):
        for imported in re.findall(r'from "(\.\.?/[^"]+)"', text):
            found = ((STATIC / name).parent / imported).resolve()
            assert found.relative_to(STATIC).as_posix() in NAMES
        assert {*re.findall(r'"toolgate/page/([^"]+)"', text)} <= {*NAMES}


@pytest.mark.parametrize(
    "path",
    [
        *("/index.html", "/ui", "/toolgate/page/", "/toolgate/page/../files.py"),
        *("/toolgate/page//etc/passwd", "/toolgate/page/connect", "/toolgate/page/\0"),
        "/toolgate/page/%2e%2e",
    ],
)
async def test_other_paths_are_not_the_pages(path):
    assert await ask(path) is None


async def test_files_have_tags_of_their_own():
    tags = {(await ask(path)).headers["etag"] for path in ("/", f"{page.ASSETS}app.js")}
    assert len(tags) == 2
