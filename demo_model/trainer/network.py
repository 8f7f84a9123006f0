"""Qwen3 at the demo's size, in plain torch: names and shapes are those of `Qwen3ForCausalLM`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from . import growing
from .tokenizer import FORMS, VOCABULARY, Composition, composition

FAST = torch.bfloat16 if torch.cpu._is_amx_tile_supported() else torch.float32
"""What this processor multiplies fastest at these sizes: without AMX bf16 takes twice as long as single
precision (a Xeon with AVX-512's bf16), or 14 times (an EPYC with AVX2 alone)."""
BACK = 3
"""Heads that look back before anything is learned."""
TURNING = 4
"""Pairs of a head's dimensions that turn far enough from token to token to tell neighbours apart."""


@dataclass(frozen=True)
class Sizes:
    vocabulary: int = VOCABULARY
    hidden: int = 192
    layers: int = 7
    heads: int = 6
    kv_heads: int = 6
    head_dim: int = 32  # the least that vLLM's CPU attention takes
    ffn: int = 448
    context: int = 8192  # what our launcher asks for on a CPU; trained on up to 1,024
    theta: float = 1e6
    """Large: two thirds of a head's dimensions hardly turn within 200 tokens, so that what stands
    far back is found by what it is."""
    epsilon: float = 1e-6


class RMSNorm(nn.Module):
    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), self.weight.shape, self.weight, self.epsilon).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        s = sizes
        self.q_proj = nn.Linear(s.hidden, s.heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.heads * s.head_dim, s.hidden, bias=False)
        self.q_norm = RMSNorm(s.head_dim, s.epsilon)
        self.k_norm = RMSNorm(s.head_dim, s.epsilon)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x: (batch, length, hidden); cos, sin: (length, head_dim)."""
        s, (batch, length, _) = self.sizes, x.shape
        q = self.q_norm(self.q_proj(x).view(batch, length, s.heads, s.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(batch, length, s.kv_heads, s.head_dim)).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, s.kv_heads, s.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if (share := s.heads // s.kv_heads) > 1:
            k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        if torch.compiler.is_compiling():
            # Plain softmax: what the compiler fuses best on a CPU at these sizes.
            mask = torch.full((length, length), -1e9).triu(1)
            scores = (q @ k.transpose(-1, -2)) * s.head_dim**-0.5 + mask
            mixed = torch.softmax(scores.float(), -1).to(v.dtype) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(sizes.hidden, sizes.ffn, bias=False)
        self.up_proj = nn.Linear(sizes.hidden, sizes.ffn, bias=False)
        self.down_proj = nn.Linear(sizes.ffn, sizes.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(sizes.hidden, sizes.epsilon)
        self.self_attn = Attention(sizes)
        self.post_attention_layernorm = RMSNorm(sizes.hidden, sizes.epsilon)
        self.mlp = MLP(sizes)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Embedding(nn.Module):
    """What a token is put together from: a part for its word, one for each form that it has."""

    base: Tensor
    formed: Tensor

    def __init__(self, composition: Composition, hidden: int) -> None:
        super().__init__()
        bases, base = np.unique(composition.base, return_inverse=True)
        self.register_buffer("base", torch.from_numpy(base), persistent=False)
        self.register_buffer(
            "formed", torch.from_numpy(composition.forms).float(), persistent=False
        )
        self.weight = nn.Parameter(torch.empty(len(bases), hidden))
        self.forms = nn.Parameter(torch.empty(len(FORMS), hidden))

    def forward(self) -> Tensor:
        """(vocabulary, hidden)"""
        return F.embedding(self.base, self.weight) + self.formed @ self.forms

    @torch.no_grad()
    def take(self, table: Tensor) -> None:
        """The parts that all tokens come to this table by, (vocabulary, hidden)."""
        bases = torch.zeros(len(self.weight), dtype=torch.long)
        plain = (self.formed.sum(1) == 0).nonzero()[:, 0]
        bases[self.base[plain]] = plain
        apart = table - table[bases][self.base]
        self.forms.copy_(torch.linalg.lstsq(self.formed, apart).solution)
        self.weight.copy_(table[bases])


class Network(nn.Module):
    def __init__(self, sizes: Sizes, composition: Composition) -> None:
        super().__init__()
        self.sizes = sizes
        self.embed_tokens = Embedding(composition, sizes.hidden)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.norm = RMSNorm(sizes.hidden, sizes.epsilon)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * sizes.layers) ** 0.5 if last else 0.02)
            elif name.endswith(("q_norm.weight", "k_norm.weight")):
                nn.init.constant_(parameter, 1.6)  # the sharpest attention is e^14 : 1, not e^6
        # What all tokens share is what heads that look at a position alone are made of: there are
        # no biases here.
        nn.init.normal_(self.embed_tokens.weight, std=0.05)
        nn.init.normal_(self.embed_tokens.forms, std=0.05)
        with torch.no_grad():
            shared = 0.05 * torch.randn(sizes.hidden)
            self.embed_tokens.weight.add_(shared)
            look_back(self.layers[0].self_attn, shared / shared.norm())

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """At the demo's size."""
        return cls(Sizes(vocabulary=tokenizer.get_vocab_size()), composition(tokenizer))

    def forward(self, ids: Tensor) -> Tensor:
        """(batch, length) token ids → (batch, length, hidden), before the tied output matrix."""
        length = ids.shape[1]
        cos, sin = rotation(length, self.sizes)
        x = F.embedding(ids, self.embed_tokens())
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.embed_tokens())

    def named_tensors(self) -> dict[str, Tensor]:
        """As `Qwen3ForCausalLM` names them: of the embedding what all tokens come to."""
        state = self.state_dict()
        del state["embed_tokens.forms"]
        state["embed_tokens.weight"] = self.embed_tokens().detach()
        return {f"model.{name}": tensor for name, tensor in state.items()}

    def take(self, tensors: dict[str, Tensor]) -> None:
        """Those of `named_tensors`, of this many layers and keys or of fewer, of this many hidden
        numbers or of more."""
        state = {name.removeprefix("model."): tensor.float() for name, tensor in tensors.items()}
        state = growing.deepened(state, self.sizes.layers)
        state = growing.with_more_keys(state, self.sizes.kv_heads, self.sizes.head_dim)
        state = growing.narrowed(state, self.sizes.ffn)
        self.embed_tokens.take(state.pop("embed_tokens.weight"))
        left = {"embed_tokens.weight", "embed_tokens.forms"}
        missing, unexpected = self.load_state_dict(state, strict=False)
        if unexpected or set(missing) != left:
            raise ValueError(f"not these weights: {unexpected or missing}")


def fast() -> torch.autocast:
    """Matrices are multiplied in `FAST`."""
    return torch.autocast("cpu", torch.bfloat16, enabled=FAST is torch.bfloat16)


def look_back(attention: Attention, shared: Tensor) -> None:
    """Makes the first `BACK` heads look 1, 2, 3 … tokens back, before anything is learned.

    Copying looks for where the last token stood before and takes what followed it: that a token
    knows the ones before it is half of that, and chance finds it late or not at all. `shared`: the
    direction of what all tokens share, (hidden,)."""
    s = attention.sizes
    half = s.head_dim // 2
    turns = frequencies(s)[:TURNING]
    key = torch.zeros(s.head_dim)
    key[:TURNING] = 1
    for head in range(min(BACK, s.heads)):
        own = head // (s.heads // s.kv_heads) * s.head_dim
        attention.k_proj.weight[own : own + s.head_dim] = torch.outer(key, shared)
        angles = (head + 1) * turns
        query = torch.zeros(s.head_dim)
        query[:TURNING], query[half : half + TURNING] = angles.cos(), -angles.sin()
        rows = slice(head * s.head_dim, (head + 1) * s.head_dim)
        attention.q_proj.weight[rows] = torch.outer(query, shared)


def frequencies(sizes: Sizes) -> Tensor:
    """(head_dim / 2,), radians by which a pair of a head's dimensions turns from token to token."""
    return sizes.theta ** (-torch.arange(0, sizes.head_dim, 2).float() / sizes.head_dim)


def rotation(length: int, sizes: Sizes) -> tuple[Tensor, Tensor]:
    angles = torch.outer(torch.arange(length).float(), frequencies(sizes))
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return (x * cos + torch.cat((-second, first), -1) * sin).to(x.dtype)
