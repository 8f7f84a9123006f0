"""Pages that the gateway fetches: which addresses are public, and the text of what they send."""

from ipaddress import ip_address, ip_network

import pytest

from tests.proxy.kit import beside
from tests.support.effort import rotating
from toolgate_proxy.features.web.fetch import PageText, page_text
from toolgate_proxy.public_fetch import is_public

ROWS = beside(__file__)


def test_special_networks_are_not_public_from_their_first_to_their_last_address():
    ends = [ip_network(each)[at] for each in ROWS["networks"].split() for at in (0, -1)]
    special = [*ends, *map(ip_address, ROWS["special"].split())]
    assert [each for each in special if is_public(each)] == []
    assert all(map(is_public, map(ip_address, ROWS["ordinary"].split())))


def test_html_is_shown_without_its_markup():
    shown = PageText("Paint & doors", "Paint\nIt dries\nin an hour <now>.\n1\n2")
    assert page_text(ROWS["page"].encode(), "text/html; charset=UTF-8") == shown


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
def test_other_text_is_shown_as_it_is_and_nothing_else(data, kind, text):
    assert page_text(data, kind) == PageText("", text)
    for binary in ("application/pdf", "image/svg+xml", "application/octet-stream"):
        assert page_text(data, binary) is None


@rotating("piece", ROWS["hostile"], one_in=3)
def test_hostile_markup_is_read(piece):
    """In time in proportion to its length: each is as large as a page may be."""
    assert page_text(piece.encode() * (2_000_000 // len(piece)), "text/html") is not None
