"""Muon: momentum whose matrices are made orthogonal by Newton–Schulz before each step."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def orthogonal(gradients: Tensor, steps: int = 5) -> Tensor:
    """(n, rows, columns), each pushed towards the nearest orthogonal matrix, in bf16."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = gradients.bfloat16()
    wide = x.shape[-2] > x.shape[-1]
    if wide:
        x = x.transpose(-1, -2)
    x = x / (x.float().norm(dim=(-2, -1), keepdim=True) + 1e-7).bfloat16()
    for _ in range(steps):
        square = x @ x.transpose(-1, -2)
        x = a * x + (b * square + c * square @ square) @ x
    return x.transpose(-1, -2) if wide else x


class Muon(torch.optim.Optimizer):
    def __init__(
        self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.95, decay: float = 0.01
    ) -> None:
        super().__init__(list(parameters), {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                shapes.setdefault(parameter.shape, []).append(parameter)
            for shape, alike in shapes.items():
                updates = []
                for parameter in alike:
                    state = self.state[parameter]
                    buffer = state.setdefault("momentum", torch.zeros_like(parameter))
                    buffer.lerp_(parameter.grad, 1 - group["momentum"])
                    updates.append(parameter.grad.lerp(buffer, group["momentum"]))
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, update in zip(alike, orthogonal(torch.stack(updates)), strict=True):
                    parameter.mul_(1 - group["lr"] * group["decay"])
                    parameter.add_(update.to(parameter.dtype), alpha=-group["lr"] * scale)
