"""Pages that the gateway fetches: which addresses are public, and the text of what they send."""

from ipaddress import ip_address, ip_network

import pytest

from toolgate_proxy.fetching.page_text import PageText, page_text
from toolgate_proxy.fetching.public_fetch import is_public

NETWORKS = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 "
    "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 "
    "203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 2001::/23 2001:db8::/32 2002::/16 3fff::/20"
)
"""Of IANA's registries of special-purpose addresses, and Azure's host services."""
SPECIAL = (
    # 192.0.0.192 is a cloud's metadata service, global for Python 3.11
    "192.0.0.8 192.0.0.192 192.0.0.255 168.63.129.16 192.88.99.1 255.255.255.255 :: ::1 "
    "::10.0.0.1 ::8.8.8.8 ::ffff:10.0.0.1 ::ffff:0:8.8.8.8 64:ff9b::a00:1 64:ff9b:1::1 100::1 "
    "2001:0:4136:e378:: 2002:a00:1:: 3fff::1 5f00::1 fc00::1 fe80::1 fec0::1 ff02::1 4000::1 "
    "2606:4700::1111%eth0 ::ffff:8.8.8.8%1"
)
ORDINARY = "8.8.8.8 192.0.1.1 223.255.255.255 2606:4700::1111 ::ffff:8.8.8.8"
PAGE = """<!doctype html><html><head><title>Paint &amp; <i>doors</i></title>
<style>p { color: red }</style></head><body><!-- <p>unseen</p> -->
<h1>Paint</h1><script>if (a < b) { "<p>" }</script>
<p>It   dries<br>in <b>an</b> hour&nbsp;&lt;now&gt;.</p><svg><text>x</text></svg>
<table><tr><td>1</td><td>2</td></tr></table></body></html>"""


def test_special_networks_are_not_public_from_their_first_to_their_last_address():
    ends = [ip_network(each)[at] for each in NETWORKS.split() for at in (0, -1)]
    special = [*ends, *map(ip_address, SPECIAL.split())]
    assert [each for each in special if is_public(each)] == []
    assert all(map(is_public, map(ip_address, ORDINARY.split())))


def test_html_is_shown_without_its_markup():
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
        (b"a", "application/pdf", None),
        (b"a", "image/svg+xml", None),
        (b"a", "application/octet-stream", None),
    ],
)
def test_other_text_is_shown_as_it_is_and_nothing_else(data, kind, text):
    assert page_text(data, kind) == (None if text is None else PageText("", text))


@pytest.mark.parametrize(
    "piece", ["<", "<a", "<!--", "<script>", "</", "<title>", "&", "&#", "<p>", " ", "<a href=<"]
)
def test_hostile_markup_is_read(piece):
    """In time in proportion to its length: each is as large as a page may be."""
    assert page_text(piece.encode() * (2_000_000 // len(piece)), "text/html") is not None
