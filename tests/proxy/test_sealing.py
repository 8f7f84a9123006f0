"""Sealed data opens only as it was sealed."""

from __future__ import annotations

import pytest

from toolgate_proxy.sealing import OwnerSeal, SealBroken, Sealer

DATA = b"the reasoning of a model"


def sealed() -> bytes:
    return Sealer(b"secret").seal(DATA, purpose="reasoning", owner="team-a")


def test_opens_for_its_purpose_and_owner() -> None:
    assert Sealer(b"secret").open(sealed(), purpose="reasoning", owner="team-a") == DATA


def test_data_is_not_in_clear_and_each_seal_is_different() -> None:
    assert DATA not in sealed()
    assert sealed() != sealed()


@pytest.mark.parametrize(
    ("secret", "purpose", "owner"),
    [
        (b"another", "reasoning", "team-a"),
        (b"secret", "response", "team-a"),
        (b"secret", "reasoning", "team-b"),
    ],
)
def test_does_not_open_otherwise(secret: bytes, purpose: str, owner: str) -> None:
    with pytest.raises(SealBroken):
        Sealer(secret).open(sealed(), purpose=purpose, owner=owner)


def test_every_changed_byte_is_noticed() -> None:
    data = sealed()
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(SealBroken):
            Sealer(b"secret").open(changed, purpose="reasoning", owner="team-a")


@pytest.mark.parametrize("length", range(30))
def test_cut_data_is_noticed(length: int) -> None:
    with pytest.raises(SealBroken):
        Sealer(b"secret").open(sealed()[:length], purpose="reasoning", owner="team-a")


def test_a_signature_depends_on_secret_and_purpose() -> None:
    signed = Sealer(b"secret").sign(DATA, purpose="a")
    assert signed == Sealer(b"secret").sign(DATA, purpose="a")
    others = (Sealer(b"other").sign(DATA, purpose="a"), Sealer(b"secret").sign(DATA, purpose="b"))
    assert signed not in others


def test_a_sealed_text_opens_for_its_owner_alone() -> None:
    mine, theirs = (OwnerSeal(Sealer(b"secret"), owner) for owner in ("team-a", "team-b"))
    text = mine.seal_text("naïve 🙂", purpose="reasoning")
    assert mine.open_text(text, purpose="reasoning") == "naïve 🙂"
    assert theirs.open_text(text, purpose="reasoning") is None
    assert mine.open_text("no base64!", purpose="reasoning") is None
