"""The kernel compiles for GPUs, which needs none. test_apply_masks.py interprets and runs it."""

from __future__ import annotations

import pytest

triton = pytest.importorskip("triton")


@pytest.mark.parametrize("target", [("cuda", 80, 32), ("cuda", 90, 32), ("hip", "gfx942", 64)])
def test_the_kernel_compiles_for_gpus(target: tuple[str, int | str, int]) -> None:
    from triton.backends.compiler import GPUTarget

    from toolgate_backend.adapters import device_masks

    integers = dict.fromkeys(("width", "stride", "words", "count"), "i32")
    signature = integers | {"logits": "*fp32", "table": "*i32", "numbers": "*i32"}
    names = device_masks.mask_rows.arg_names
    signature = {name: signature.get(name, "constexpr") for name in names}
    source = triton.compiler.ASTSource(
        device_masks.mask_rows, signature, {"BLOCK": device_masks.BLOCK}
    )
    assert triton.compile(source, target=GPUTarget(*target)).kernel
