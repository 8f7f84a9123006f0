"""The table of rows on a CPU, and the application of its rows to logits, for all sequences of a
batch together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from ..tokens.masks import BitmaskRow, BitmaskRows
from .row_numbers import SLOTS, Numbers, RowTable, tokens_of


def make_table(
    device: torch.device,
    vocabulary_size: int,
    *,
    forces: bool,
    slots: int = SLOTS,
    types: Iterable[torch.dtype] = (torch.float32,),
) -> RowTable:
    """`forces`: a row with a single token forces this token whatever its logit was: a ban by a
    logits processor before must not leave the sequence without any token. `types`: those of the
    logits."""
    if device.type == "cpu":
        return ListedMasks(vocabulary_size, forces=forces)
    from .device_masks import DeviceMasks  # imports Triton, which machines without a GPU may lack

    table = DeviceMasks(device, vocabulary_size, forces=forces, slots=slots)
    table.prepare(types)
    return table


FORBIDDEN = float("-inf")
BATCHED_ENTRIES = 4096
"""Maximum number of entries up to which rows with different masks are set in one operation, because
a torch operation costs more than that many entries. Larger masks are set in one operation for all
sequences that share the mask."""

Operation = Literal["forbid", "allow", "force"]
"""What is done with the listed tokens. `force` is `allow` for a single token, whatever its logit
was."""
TokenList = tuple[Operation, npt.NDArray[np.int32]]
"""A mask by its allowed or by its forbidden tokens, whichever are fewer."""


class ListedMasks(RowTable):
    """Applies masks to logits on a CPU, as lists of tokens.

    xgrammar's CPU kernel takes 490 µs for a row of 151,936 entries if few tokens are allowed.
    Setting the listed entries is faster."""

    def __init__(self, vocabulary_size: int, *, forces: bool) -> None:
        self._vocabulary_size, self._forces = vocabulary_size, forces
        self._lists: list[TokenList] = []

    def _write(self, first: int, rows: BitmaskRows) -> None:
        del self._lists[first:]
        self._lists += map(self._listed, rows)

    def _listed(self, words: BitmaskRow) -> TokenList:
        tokens = tokens_of(words, self._vocabulary_size)
        if len(tokens) == 1 and self._forces:
            return "force", tokens.astype(np.int32)
        if len(tokens) * 2 < self._vocabulary_size:
            return "allow", tokens.astype(np.int32)
        return "forbid", tokens_of(~words, self._vocabulary_size).astype(np.int32)

    def _apply(self, logits: torch.Tensor, indices: Numbers, numbers: Numbers) -> None:
        indices_by_number: dict[int, list[int]] = {}
        for index, number in zip(indices.tolist(), numbers.tolist(), strict=True):
            indices_by_number.setdefault(number, []).append(index)
        batches: dict[Operation, list[tuple[int, npt.NDArray[np.int32]]]] = {}
        for number, together in indices_by_number.items():
            operation, tokens = self._lists[number]
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


def _set(
    logits: torch.Tensor,
    indices: Sequence[int],
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
