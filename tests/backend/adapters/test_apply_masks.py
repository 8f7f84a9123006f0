"""Whatever its form, and however many rows share it, a mask leaves just what it allows."""

from __future__ import annotations

import numpy as np
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


applied = MaskApplier(torch.device("cpu"))  # one for all examples: what is remembered must not leak


@given(st.lists(any_mask(), min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=6))
def test_each_row_keeps_the_logits_its_mask_allows(
    kinds: list[tuple[masks.Mask, set[int]]], picks: list[int]
) -> None:
    rows = {row: kinds[pick % len(kinds)] for row, pick in enumerate(picks)}
    before = torch.rand(len(rows) + 1, VOCABULARY)
    after = before.clone()
    applied.apply(after, [(row, mask) for row, (mask, _) in rows.items()])
    assert after[len(rows)].equal(before[len(rows)])
    for row, (mask, allowed) in rows.items():
        left = set(torch.nonzero(after[row] > float("-inf")).flatten().tolist())
        assert left == allowed
        if len(allowed) > 1 or isinstance(mask, masks.Forbid):
            kept = sorted(allowed)
            assert after[row, kept].equal(before[row, kept])


def test_a_single_allowed_token_is_forced_whatever_its_logit() -> None:
    logits = torch.full((1, VOCABULARY), float("-inf"))
    applied.apply(logits, [(0, masks.Allow(masks.token_ids([7])))])
    assert torch.nonzero(logits > float("-inf")).tolist() == [[0, 7]]
