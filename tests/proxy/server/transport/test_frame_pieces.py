"""Large WebSocket frames that are rewritten as fragments."""

from __future__ import annotations

import os
import random

import pytest
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side

from toolgate_proxy.server.transport.frame_pieces import PIECE, FramePieces

LARGEST = 20 * PIECE


def as_sent(content: bytes, *, opcode: Opcode = Opcode.TEXT, fin: bool = True) -> bytes:
    """A frame of a client, with a random mask."""
    return Frame(opcode, content, fin).serialize(mask=True)


def received(data: bytes, part: int) -> tuple[list[Frame], int | None]:
    """Frames that a server finds if they arrive in parts, and why it closes the connection."""
    server, pieces = Protocol(Side.SERVER, max_size=LARGEST), FramePieces(LARGEST)
    for at in range(0, len(data), part):
        server.receive_data(bytes(pieces.rewritten(data[at : at + part])))
        if server.parser_exc is not None:
            break
    found = [each for each in server.events_received() if isinstance(each, Frame)]
    reason = server.close_sent.code if server.close_sent is not None else None
    return found, reason


def messages(frames: list[Frame]) -> list[tuple[Opcode, bytes]]:
    """Messages and control frames, in the order of their ends."""
    found, begun, content = [], Opcode.CONT, b""
    for each in frames:
        if each.opcode >= Opcode.CLOSE:
            found.append((each.opcode, bytes(each.data)))
            continue
        begun = begun if each.opcode is Opcode.CONT else each.opcode
        content += bytes(each.data)
        if each.fin:
            found.append((begun, content))
            content = b""
    return found


@pytest.mark.parametrize("part", [3, PIECE + 5, 10**9])
@pytest.mark.parametrize("size", [0, 1, 125, 126, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 200_003])
def test_message_is_the_same_in_fragments(size: int, part: int) -> None:
    content = os.urandom(size)
    sent = as_sent(content) + as_sent(b"ping", opcode=Opcode.PING) + as_sent(b"next")
    frames, reason = received(sent, part)
    assert reason is None
    assert max(len(each.data) for each in frames) <= PIECE
    assert messages(frames) == [
        (Opcode.TEXT, content),
        (Opcode.PING, b"ping"),
        (Opcode.TEXT, b"next"),
    ]


def test_fragments_of_the_client_stay_one_message() -> None:
    chosen = random.Random(1)
    parts = [os.urandom(chosen.choice((0, 10, PIECE + 4, 100_000))) for _ in range(9)]
    sent = b"".join(
        as_sent(each, opcode=Opcode.CONT if at else Opcode.BINARY, fin=at == len(parts) - 1)
        + as_sent(b"", opcode=Opcode.PONG)
        for at, each in enumerate(parts)
    )
    found = messages(received(sent, 50_000)[0])
    assert [each for each in found if each[0] is Opcode.BINARY] == [
        (Opcode.BINARY, b"".join(parts))
    ]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (as_sent(bytes(LARGEST + 1)), 1009),
        (as_sent(bytes(LARGEST - 9), fin=False) + as_sent(bytes(10), opcode=Opcode.CONT), 1009),
        (Frame(Opcode.TEXT, bytes(2 * PIECE)).serialize(mask=False), 1002),
        (b"\x8a" + as_sent(bytes(2 * PIECE))[1:], 1002),
        (b"\xc1" + as_sent(bytes(2 * PIECE))[1:], 1002),
        (as_sent(bytes(2 * PIECE), opcode=Opcode.CONT), 1002),
    ],
    ids=["too large", "too large together", "unmasked", "control", "compressed", "no beginning"],
)
def test_what_is_not_allowed_is_refused_as_before(sent: bytes, code: int) -> None:
    assert received(sent, 50_000)[1] == code
    server = Protocol(Side.SERVER, max_size=LARGEST)
    server.receive_data(sent)
    assert server.close_sent is not None
    assert server.close_sent.code == code


def test_a_frame_that_is_too_large_is_refused_at_its_beginning() -> None:
    assert received(as_sent(bytes(LARGEST + 1))[:20], 20)[1] == 1009
