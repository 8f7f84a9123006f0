"""Muon: momentum whose matrices are made orthogonal by Newton–Schulz before each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from .network import FAST

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonal(gradients: Tensor) -> Tensor:
    """(number, rows, columns), rows ≤ columns: each pushed towards the nearest orthogonal matrix."""
    a, b, c = COEFFICIENTS
    x = (gradients / (gradients.norm(dim=(1, 2), keepdim=True) + 1e-7)).to(FAST)
    for _ in range(STEPS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.float()


def wide(matrix: Tensor) -> Tensor:
    return matrix.T if matrix.shape[0] > matrix.shape[1] else matrix


class Muon:
    """Each of `world` processes orthogonalises its share of the matrices, those of one shape
    together; `add` sums over all."""

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
        self._add = add
        self._momentum, self._decay = momentum, decay
        self._buffers = [torch.zeros_like(matrix) for matrix in self._matrices]
        alike: dict[torch.Size, list[int]] = {}
        for index, matrix in enumerate(self._matrices):
            alike.setdefault(wide(matrix).shape, []).append(index)
        shares = (indices[rank::world] for indices in alike.values())
        self._alike = [indices for indices in shares if indices]

    def buffers(self) -> list[Tensor]:
        return self._buffers

    def load(self, buffers: list[Tensor]) -> None:
        self._buffers = buffers

    @torch.no_grad()
    def step(self, rate: float) -> None:
        updates = torch.zeros(sum(matrix.numel() for matrix in self._matrices))
        views = updates.split([matrix.numel() for matrix in self._matrices])
        for indices in self._alike:
            found = []
            for index in indices:
                gradient, buffer = self._matrices[index].grad, self._buffers[index]
                buffer.lerp_(gradient, 1 - self._momentum)
                found.append(wide(gradient.lerp(buffer, self._momentum)))
            for index, update in zip(indices, orthogonal(torch.stack(found)), strict=True):
                rows, columns = self._matrices[index].shape
                view = views[index].view(rows, columns)
                scale = max(1.0, rows / columns) ** 0.5
                wide(view).copy_(scale * update)
        self._add(updates)
        for matrix, view in zip(self._matrices, views, strict=True):
            matrix.mul_(1 - rate * self._decay).add_(view.view_as(matrix), alpha=-rate)
