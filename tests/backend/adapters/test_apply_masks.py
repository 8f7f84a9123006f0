"""Whatever its form, and however many rows share it, a mask leaves just what it allows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from toolgate_backend.adapters.apply_masks import MaskApplier
from toolgate_backend.tokens import masks

VOCABULARY = 100  # no multiple of 32: the last word has bits that are no token's
tokens = st.sets(st.integers(0, VOCABULARY - 1), min_size=1)


@st.composite
def any_mask(draw: st.DrawFn) -> tuple[masks.Mask, set[int]]:
    """A mask, and what it allows."""
    chosen = draw(tokens)
    kind = draw(st.sampled_from(("forbid", "allow", "bits")))
    if kind == "forbid":
        return masks.Forbid(masks.token_ids(chosen)), set(range(VOCABULARY)) - chosen
    if kind == "allow":
        return masks.Allow(masks.token_ids(chosen)), chosen
    words = masks.pack(masks.token_ids(chosen), VOCABULARY)
    words[-1] |= np.int32(np.uint32(0x70000000))  # beyond the vocabulary
    return masks.Bits(words), chosen


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
# One applier for all examples: what it caches must not leak into others.
appliers = {
    device: MaskApplier(torch.device(device), pin_memory=device == "cuda") for device in DEVICES
}


@pytest.mark.parametrize("device", DEVICES)
@given(st.lists(any_mask(), min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=6))
def test_each_row_keeps_the_logits_its_mask_allows(
    device: str, kinds: list[tuple[masks.Mask, set[int]]], picks: list[int]
) -> None:
    rows = {row: kinds[pick % len(kinds)] for row, pick in enumerate(picks)}
    before = torch.rand(len(rows) + 1, VOCABULARY, device=device)
    after = before.clone()
    appliers[device].apply(after, [(row, mask) for row, (mask, _) in rows.items()])
    assert after[len(rows)].equal(before[len(rows)])
    for row, (mask, allowed) in rows.items():
        left = set(torch.nonzero(after[row] > float("-inf")).flatten().tolist())
        assert left == allowed
        if len(allowed) > 1 or isinstance(mask, masks.Forbid):
            kept = sorted(allowed)
            assert after[row, kept].equal(before[row, kept])


@pytest.mark.parametrize("device", DEVICES)
def test_a_single_allowed_token_is_forced_whatever_its_logit(device: str) -> None:
    logits = torch.full((1, VOCABULARY), float("-inf"), device=device)
    appliers[device].apply(logits, [(0, masks.Allow(masks.token_ids([7])))])
    assert torch.nonzero(logits > float("-inf")).tolist() == [[0, 7]]


@pytest.mark.parametrize("device", DEVICES)
def test_kernels_are_compiled_for_any_device(device: str) -> None:
    appliers[device].compile_kernels(VOCABULARY)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_nothing_waits_for_the_gpu() -> None:
    """A wait would last as long as the forward pass."""
    many = 6000
    rows: list[masks.Mask] = [
        masks.Forbid(masks.token_ids(range(3))),
        masks.Forbid(masks.token_ids(range(many))),
        masks.Allow(masks.token_ids([7])),
        masks.Allow(masks.token_ids([7, 8])),
        masks.Allow(masks.token_ids(range(many))),
        masks.Bits(masks.pack(masks.token_ids([1, 2]), 2 * many)),
    ]
    logits = torch.zeros((len(rows), 2 * many), device="cuda")
    appliers["cuda"].apply(logits, enumerate(rows))  # compiles the kernel
    torch.cuda.set_sync_debug_mode("error")
    try:
        appliers["cuda"].apply(logits, enumerate(rows))
    finally:
        torch.cuda.set_sync_debug_mode("default")
