from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolgate_proxy.backend_client.event_stream import SseParser

STREAM = b': hm\n\ndata: {"a": 1}\r\n\r\nevent: x\ndata:{"b": "\xc3\xa9"}\n\ndata: {"c'
PAYLOADS = [b'{"a": 1}', b'{"b": "\xc3\xa9"}']


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_payloads_do_not_depend_on_chunk_boundaries(cuts: list[int]) -> None:
    parser, at, payloads = SseParser(), 0, []
    for cut in [*sorted(cuts), len(STREAM)]:
        payloads += parser.feed(STREAM[at:cut])
        at = cut
    assert payloads == PAYLOADS


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_any_bytes_are_lines_or_pending(parts: list[bytes]) -> None:
    parser = SseParser()
    payloads = [payload for part in parts for payload in parser.feed(part)]
    *lines, rest = b"".join(parts).split(b"\n")
    assert payloads == [line[5:].strip() for line in lines if line.startswith(b"data:")]
    assert parser.pending == len(rest)
