"""Weights of another size, as a network of this size begins with them: (nearly) the same function."""

from __future__ import annotations

from collections import defaultdict

from torch import Tensor, zeros_like

Weights = dict[str, Tensor]
ADDING = ("self_attn.o_proj.weight", "mlp.down_proj.weight")
"""The last matrices of a layer's two halves: where they are zero, it adds nothing."""


def deepened(state: Weights, layers: int) -> Weights:
    """The same function in `layers` layers: each new one begins as a copy of the one before it that
    adds nothing yet (LLaMA Pro, arXiv:2401.02415)."""
    made: Weights = {}
    given: defaultdict[int, Weights] = defaultdict(dict)
    for name, tensor in state.items():
        if name.startswith("layers."):
            _, index, part = name.split(".", 2)
            given[int(index)][part] = tensor
        else:
            made[name] = tensor
    held = 1 + max(given, default=-1)
    if held > layers:
        raise ValueError(f"weights of {held} layers do not fit into {layers}")
    sources = [(2 * layer + 1) * held // (2 * layers) for layer in range(layers)]
    for layer, source in enumerate(sources):
        new = source in sources[:layer]
        for part, tensor in given[source].items():
            idle = new and part in ADDING
            made[f"layers.{layer}.{part}"] = zeros_like(tensor) if idle else tensor
    return made


def with_more_keys(state: Weights, kv_heads: int, head_dim: int) -> Weights:
    """The same function: heads that shared a key and a value have a copy each."""
    made = dict(state)
    for name, tensor in state.items():
        if name.endswith(("k_proj.weight", "v_proj.weight")):
            heads = tensor.view(-1, head_dim, tensor.shape[1])
            if kv_heads % len(heads):
                raise ValueError(f"{len(heads)} keys cannot be shared out among {kv_heads}")
            made[name] = heads.repeat_interleave(kv_heads // len(heads), 0).flatten(0, 1)
    return made


def narrowed(state: Weights, ffn: int) -> Weights:
    """Nearly the same function, without the hidden numbers that add least: of 512 that the demo model
    had in each layer, some 60 added nothing."""
    made = dict(state)
    for name in state:
        if name.endswith("down_proj.weight"):
            mlp = name.removesuffix("down_proj.weight")
            gate, up = f"{mlp}gate_proj.weight", f"{mlp}up_proj.weight"
            adds = state[name].norm(dim=0) * state[gate].norm(dim=1) * state[up].norm(dim=1)
            if len(adds) < ffn:
                raise ValueError(f"{len(adds)} hidden numbers are fewer than {ffn}")
            kept = adds.topk(ffn).indices.sort().values
            made |= {name: state[name][:, kept], gate: state[gate][kept], up: state[up][kept]}
    return made
