"""Muon: momentum whose matrices are made orthogonal by Newton–Schulz before each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonal(gradient: Tensor) -> Tensor:
    """(rows, columns), pushed towards the nearest orthogonal matrix, in bf16."""
    a, b, c = COEFFICIENTS
    x = (gradient / (gradient.norm() + 1e-7)).bfloat16()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(STEPS):
        square = x @ x.T
        x = a * x + (b * square + c * (square @ square)) @ x
    return (x.T if tall else x).float()


class Muon:
    """Each of `world` processes orthogonalises its share of the matrices; `add` sums over all."""

    def __init__(
        self,
        matrices: Iterable[Tensor],
        rank: int,
        world: int,
        add: Callable[[Tensor], None],
        momentum: float = 0.95,
        decay: float = 0.01,
    ) -> None:
        self._matrices = list(matrices)
        self._rank, self._world, self._add = rank, world, add
        self._momentum, self._decay = momentum, decay
        self._buffers = [torch.zeros_like(matrix) for matrix in self._matrices]

    def buffers(self) -> list[Tensor]:
        return self._buffers

    def load(self, buffers: list[Tensor]) -> None:
        self._buffers = buffers

    @torch.no_grad()
    def step(self, rate: float) -> None:
        updates = torch.zeros(sum(matrix.numel() for matrix in self._matrices))
        views = updates.split([matrix.numel() for matrix in self._matrices])
        for index, (matrix, buffer) in enumerate(zip(self._matrices, self._buffers, strict=True)):
            if index % self._world != self._rank:
                continue
            buffer.lerp_(matrix.grad, 1 - self._momentum)
            update = orthogonal(matrix.grad.lerp(buffer, self._momentum))
            scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
            views[index].copy_((scale * update).flatten())
        self._add(updates)
        for matrix, view in zip(self._matrices, views, strict=True):
            matrix.mul_(1 - rate * self._decay).add_(view.view_as(matrix), alpha=-rate)
