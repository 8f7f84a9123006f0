from __future__ import annotations

import pytest

from toolgate_proxy.fetching.page_text import PageText, page_text

PAGE = """<!doctype html><html><head><title>Paint &amp; <i>doors</i></title>
<style>p { color: red }</style></head><body><!-- <p>unseen</p> -->
<h1>Paint</h1><script>if (a < b) { "<p>" }</script>
<p>It   dries<br>in <b>an</b> hour&nbsp;&lt;now&gt;.</p><svg><text>x</text></svg>
<table><tr><td>1</td><td>2</td></tr></table></body></html>"""


def test_html_is_shown_without_its_markup() -> None:
    shown = PageText("Paint & doors", "Paint\nIt dries\nin an hour <now>.\n1\n2")
    assert page_text(PAGE.encode(), "text/html; charset=UTF-8") == shown


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        ("Grüße".encode(), "text/plain", "Grüße"),
        ("Grüße".encode("latin-1"), "text/plain; charset=ISO-8859-1", "Grüße"),
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        (b"<a/>", "application/atom+xml", "<a/>"),
        (b"# Title", "text/markdown", "# Title"),
        (b"a\xff", "text/plain; charset=punycode", "a�"),
        (b"a", "text/plain; charset=nothing", "a"),
        (b"a", "", "a"),
    ],
)
def test_other_text_is_shown_as_it_is(data: bytes, kind: str, text: str) -> None:
    assert page_text(data, kind) == PageText("", text)


@pytest.mark.parametrize("kind", ["application/pdf", "image/svg+xml", "application/octet-stream"])
def test_what_is_no_text_has_none(kind: str) -> None:
    assert page_text(b"a", kind) is None


@pytest.mark.parametrize(
    "piece", ["<", "<a", "<!--", "<script>", "</", "<title>", "&", "&#", "<p>", " ", "<a href=<"]
)
def test_hostile_markup_is_read(piece: str) -> None:
    """In time in proportion to its length: each is as large as a page may be."""
    assert page_text(piece.encode() * (2_000_000 // len(piece)), "text/html") is not None
