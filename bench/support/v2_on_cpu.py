"""vLLM's V2 model runner on a CPU, in this process: Triton interprets its kernels."""

import os
from collections.abc import Callable
from typing import Any


def install() -> None:
    """Called before vLLM and torch's compiler are imported."""
    os.environ.update(TRITON_INTERPRET="1", VLLM_USE_V2_MODEL_RUNNER="1")
    import torch
    from triton import backends
    from triton.backends.compiler import GPUTarget

    class Driver:
        """As far as vLLM and the interpreter ask for it."""

        @staticmethod
        def is_active() -> bool:
            return True

        def get_current_target(self) -> Any:
            return GPUTarget("cpu", 0, 1)

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, *_device: Any) -> int:
            return 0

        def get_active_torch_device(self) -> torch.device:
            return torch.device("cpu")

    backend = next(iter(backends.backends.values()))
    backends.backends["cpu"] = type(backend)(backend.compiler, Driver)

    from triton.runtime import interpreter

    for name, place in (("create_masked_load", 2), ("create_masked_store", 3)):
        inner = getattr(interpreter.InterpreterBuilder, name)
        setattr(interpreter.InterpreterBuilder, name, _with_boolean_mask(inner, place))


def _with_boolean_mask(inner: Callable[..., Any], place: int) -> Callable[..., Any]:
    """The interpreter refuses masks of other types, such as that of vLLM's bitmask kernel."""

    def outer(*arguments: Any) -> Any:
        mask = arguments[place]
        mask.data = mask.data.astype(bool)
        return inner(*arguments)

    return outer
