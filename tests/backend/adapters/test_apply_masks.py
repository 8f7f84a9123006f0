"""Whatever tokens a row allows, and however many sequences share it, these are left."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolgate_backend.adapters.apply_masks import ListedMasks, MaskApplier, make_applier
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import Row

VOCABULARY = 100  # no multiple of 32: the last word has bits that are no token's
SLOTS = 3
tokens = st.sets(st.integers(0, VOCABULARY - 1), min_size=1)
DEVICES = ["cpu", "interpreted", *(["cuda"] if torch.cuda.is_available() else [])]


def make_row(allowed: set[int], *, beyond: bool = False, size: int = VOCABULARY) -> Row:
    words = masks.pack(masks.token_ids(allowed), size)
    if beyond:
        words[-1] |= np.int32(np.uint32(0x70000000))  # beyond the vocabulary
    return Row(words.tobytes())


@pytest.fixture(scope="module", params=DEVICES)
def applier(request: pytest.FixtureRequest) -> Iterator[MaskApplier]:
    """One for all examples: what it keeps must not leak into others. `interpreted` is the
    application for GPUs on a CPU, with few slots."""
    if request.param != "interpreted":
        yield make_applier(torch.device(request.param), VOCABULARY, pin_memory=True)
        return
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    from toolgate_backend.adapters import device_masks

    with pytest.MonkeyPatch.context() as patch:
        kernel = interpreter.InterpretedFunction(device_masks.mask_rows.fn)
        patch.setattr(device_masks, "mask_rows", kernel)
        patch.setattr(device_masks, "BLOCK", 64)
        yield device_masks.DeviceMasks(torch.device("cpu"), VOCABULARY, slots=SLOTS)


def device_of(applier: MaskApplier) -> torch.device:
    return getattr(applier, "_device", torch.device("cpu"))


@settings(suppress_health_check=[HealthCheck.differing_executors], deadline=None)
@given(
    st.lists(st.tuples(tokens, st.booleans()), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), max_size=8),
    st.randoms(use_true_random=False),
)
def test_each_sequence_keeps_the_logits_that_its_row_allows(
    applier: MaskApplier, kinds: list[tuple[set[int], bool]], picks: list[int], rng: object
) -> None:
    made = [(make_row(allowed, beyond=beyond), allowed) for allowed, beyond in kinds]
    given_rows = [made[pick % len(made)] for pick in picks]
    count = len(given_rows) + 1
    indices = list(range(count))
    rng.shuffle(indices)  # type: ignore[attr-defined]
    *indices, free = indices
    before = torch.rand(count, VOCABULARY, device=device_of(applier))
    after = before.clone()
    applier.apply(after, indices, [row for row, _ in given_rows])
    assert after[free].equal(before[free])
    for index, (_, allowed) in zip(indices, given_rows, strict=True):
        left = set(torch.nonzero(after[index] > float("-inf")).flatten().tolist())
        assert left == allowed
        if len(allowed) > 1:
            kept = sorted(allowed)
            assert after[index, kept].equal(before[index, kept])


def test_rows_that_were_replaced_return(applier: MaskApplier) -> None:
    """More rows than the table has slots, in one step and over several."""
    rows = [make_row({number, number + 1}) for number in range(3 * SLOTS)]
    for order in (rows, rows[:2], rows[::-1], rows[1:4], rows):
        logits = torch.zeros(len(order), VOCABULARY, device=device_of(applier))
        applier.apply(logits, range(len(order)), order)
        for row, left in zip(order, logits, strict=True):
            assert torch.nonzero(left == 0).flatten().tolist() == masks.unpack(row.words).tolist()


@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("token", [7, VOCABULARY - 1])
def test_a_single_allowed_token_is_forced_whatever_its_logit(
    applier: MaskApplier, token: int, beyond: bool
) -> None:
    logits = torch.full((2, VOCABULARY), float("-inf"), device=device_of(applier))
    applier.apply(logits, [1], [make_row({token}, beyond=beyond)])
    assert torch.nonzero(logits > float("-inf")).tolist() == [[1, token]]


def test_several_allowed_tokens_are_not_forced(applier: MaskApplier) -> None:
    logits = torch.full((1, VOCABULARY), float("-inf"), device=device_of(applier))
    logits[0, 8] = 1.5
    applier.apply(logits, [0], [make_row({7, 8})])
    assert torch.nonzero(logits > float("-inf")).tolist() == [[0, 8]]


def test_lists_are_kept_as_long_as_their_row() -> None:
    applier = ListedMasks()
    row = make_row({1, 2})
    applier.apply(torch.zeros(1, VOCABULARY), [0], [row])
    assert len(applier._lists) == 1
    del row
    gc.collect()
    assert not applier._lists


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_nothing_waits_for_the_gpu() -> None:
    """A wait would last as long as the forward pass."""
    size = 12_000
    applier = make_applier(torch.device("cuda"), size, pin_memory=True)
    rows = [
        make_row(set(allowed), size=size) for allowed in ([7], [7, 8], range(6000), range(3, size))
    ]
    logits = torch.zeros((len(rows), size), device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        for first in range(len(rows)):  # new rows in each step
            applier.apply(logits[first:], range(len(rows) - first), rows[first:])
    finally:
        torch.cuda.set_sync_debug_mode("default")
