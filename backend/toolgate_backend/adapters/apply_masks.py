"""Application of rows of bitmasks to logits, for all sequences of a batch together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch

from ..tokens import masks
from ..tokens.masks import Row, TokenIds


class MaskApplier(Protocol):
    def apply(self, logits: torch.Tensor, indices: Sequence[int], rows: Sequence[Row]) -> None:
        """Forbid in `logits[indices[i]]` what `rows[i]` forbids, in place. The shape of `logits` is
        (sequences, vocabulary).

        A row with a single token forces this token whatever its logit was: a ban by another
        processor must not leave the sequence without any token."""


def make_applier(
    device: torch.device, vocabulary_size: int, *, pin_memory: bool = False
) -> MaskApplier:
    """`pin_memory`: copy to the device from page-locked memory, see device_masks.py."""
    if device.type == "cpu":
        return ListedMasks()
    from .device_masks import DeviceMasks  # imports Triton, which machines without a GPU may lack

    masks = DeviceMasks(device, vocabulary_size, pin_memory=pin_memory)
    masks.compile_kernel()
    return masks


FORBIDDEN = float("-inf")
BATCHED_ENTRIES = 4096
"""Maximum number of entries up to which rows with different masks are set in one operation, because
a torch operation costs more than that many entries. Larger masks are set in one operation for all
sequences that share the mask."""

Operation = Literal["forbid", "allow", "force"]
"""What is done with the listed tokens. `force` is `allow` for a single token, whatever its logit
was."""
TokenList = tuple[Operation, TokenIds]
"""A mask by its allowed or by its forbidden tokens, whichever are fewer."""


class ListedMasks:
    """Applies masks to logits on a CPU, as lists of tokens.

    xgrammar's CPU kernel takes 490 µs for a row of 151,936 entries if few tokens are allowed.
    Setting the listed entries is faster."""

    def __init__(self) -> None:
        self._lists: WeakKeyDictionary[Row, TokenList] = WeakKeyDictionary()

    def apply(self, logits: torch.Tensor, indices: Sequence[int], rows: Sequence[Row]) -> None:
        indices_by_row: dict[Row, list[int]] = {}
        for index, row in zip(indices, rows, strict=True):
            indices_by_row.setdefault(row, []).append(index)
        batches: dict[Operation, list[tuple[int, TokenIds]]] = {}
        for row, together in indices_by_row.items():
            operation, tokens = self._list(row, logits.shape[1])
            if len(tokens) * len(together) > BATCHED_ENTRIES:
                entries = _tensor(together)[:, None], _tensor(tokens)
                _set(logits, together, entries, operation)
            else:
                batch = batches.setdefault(operation, [])
                batch.extend((index, tokens) for index in together)
        for operation, batch in batches.items():
            together = [index for index, _ in batch]
            repeated = np.repeat(together, [len(tokens) for _, tokens in batch])
            listed = np.concatenate([tokens for _, tokens in batch])
            _set(logits, together, (_tensor(repeated), _tensor(listed)), operation)

    def _list(self, row: Row, vocabulary_size: int) -> TokenList:
        found = self._lists.get(row)
        if found is None:
            found = self._lists[row] = _unpack(row, vocabulary_size)
        return found


def _unpack(row: Row, vocabulary_size: int) -> TokenList:
    few_allowed = row.count * 2 < vocabulary_size
    tokens = masks.unpack(row.words if few_allowed else ~row.words)
    tokens = tokens[tokens < vocabulary_size]
    if not few_allowed:
        return "forbid", tokens
    return "force" if len(tokens) == 1 else "allow", tokens


def _set(
    logits: torch.Tensor,
    indices: list[int],
    entries: tuple[torch.Tensor, torch.Tensor],
    operation: Operation,
) -> None:
    """`entries` are the indices and the tokens that the masks of these sequences list."""
    if operation == "forbid":
        logits[entries] = FORBIDDEN
        return
    kept = logits[entries] if operation == "allow" else logits.new_zeros(())
    logits.index_fill_(0, _tensor(indices), FORBIDDEN)
    logits[entries] = kept


def _tensor(numbers: npt.ArrayLike) -> torch.Tensor:
    return torch.from_numpy(np.asarray(numbers, np.int64))
