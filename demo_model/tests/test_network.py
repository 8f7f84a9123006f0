"""The network before anything is learned, and with what was learned before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from trainer.export import averaged
from trainer.network import BACK, Network, Sizes, rotate, rotation
from trainer.tokenizer import FORMS, Composition


def _plain(vocabulary: int) -> Composition:
    """Every token is a part of its own."""
    return Composition(np.arange(vocabulary), np.zeros((vocabulary, len(FORMS)), bool))


def _begun_with(network: Network, **sizes: int) -> Network:
    """One of other sizes with this one's weights, which says the same."""
    vocabulary = network.sizes.vocabulary
    other = Network(replace(network.sizes, **sizes), _plain(vocabulary))
    other.take(network.named_tensors())
    ids = torch.randint(0, vocabulary, (2, 12))
    torch.testing.assert_close(other(ids), network(ids))
    return other


def test_a_token_is_its_word_and_its_forms() -> None:
    torch.manual_seed(0)
    forms = np.array([(False, False, False), (True, False, False), (True, False, True)])
    network = Network(
        Sizes(vocabulary=4), Composition(np.array([0, 1, 1, 1]), np.vstack((forms[:1], forms)))
    )
    parts = network.embed_tokens
    assert parts.weight.shape[0] == 2
    table = network.named_tensors()["model.embed_tokens.weight"]
    wanted = [parts.weight[0], parts.weight[1], parts.weight[1] + parts.forms[0]]
    wanted.append(parts.weight[1] + parts.forms[0] + parts.forms[2])
    torch.testing.assert_close(table, torch.stack(wanted).detach())
    assert "model.embed_tokens.forms" not in network.named_tensors()
    torch.testing.assert_close(network.logits(torch.eye(192)), table.T)


def test_a_training_begins_with_exported_weights() -> None:
    torch.manual_seed(0)
    forms = np.array([(False, False, False), (False, False, False), (True, False, False)])
    sizes, made = Sizes(vocabulary=3), Composition(np.array([0, 1, 1]), forms)
    network, other = Network(sizes, made), Network(sizes, made)
    other.take(network.named_tensors())
    for name, tensor in network.named_tensors().items():
        torch.testing.assert_close(other.named_tensors()[name], tensor)
    torch.testing.assert_close(other.embed_tokens.forms[0], network.embed_tokens.forms[0])
    with pytest.raises(ValueError, match="not these weights"):
        other.take({"model.embed_tokens.weight": network.embed_tokens().detach()})


def test_a_deeper_network_begins_as_the_one_that_its_weights_are_of() -> None:
    torch.manual_seed(0)
    small = Sizes(vocabulary=64, hidden=32, layers=2, heads=2, kv_heads=1, ffn=48)
    network = Network(small, _plain(64))
    deep = _begun_with(network, layers=5)
    deep(torch.randint(0, 64, (2, 12))).sum().backward()
    learning = [layer.self_attn.o_proj.weight.grad.abs().max().item() for layer in deep.layers]
    assert all(each > 0 for each in learning)
    with pytest.raises(ValueError, match="5 layers do not fit into 2"):
        network.take(deep.named_tensors())


def test_a_network_with_more_keys_begins_as_the_one_that_its_weights_are_of() -> None:
    torch.manual_seed(0)
    small = Sizes(vocabulary=64, hidden=32, layers=2, heads=6, kv_heads=2, ffn=48)
    network = Network(small, _plain(64))
    wide = _begun_with(network, kv_heads=6)
    (wide(torch.randint(0, 64, (2, 12))) * torch.randn(2, 12, 32)).sum().backward()
    of_heads = wide.layers[0].self_attn.v_proj.weight.grad.view(6, small.head_dim, -1)
    assert not torch.allclose(of_heads[0], of_heads[1])
    with pytest.raises(ValueError, match="6 keys cannot be shared out among 2"):
        network.take(wide.named_tensors())


def test_hidden_numbers_that_add_nothing_are_left_out() -> None:
    torch.manual_seed(0)
    large = Sizes(vocabulary=64, hidden=32, layers=2, heads=2, kv_heads=1, ffn=48)
    network = Network(large, _plain(64))
    with torch.no_grad():
        for layer in network.layers:
            layer.mlp.up_proj.weight[torch.randperm(48)[:16]] = 0
    slim = _begun_with(network, ffn=32)
    with pytest.raises(ValueError, match="32 hidden numbers are fewer than 48"):
        network.take(slim.named_tensors())


@pytest.mark.parametrize("kv_heads", [2, 6])
def test_the_first_heads_look_back_before_anything_is_learned(kv_heads: int) -> None:
    torch.manual_seed(0)
    network = Network(Sizes(vocabulary=256, kv_heads=kv_heads), _plain(256))
    first, sizes = network.layers[0], network.sizes
    x = first.input_layernorm(network.embed_tokens()[torch.randint(0, 256, (1, 40))])
    cos, sin = rotation(40, sizes)
    attention = first.self_attn
    q = attention.q_proj(x).view(40, sizes.heads, sizes.head_dim).transpose(0, 1)
    k = attention.k_proj(x).view(40, sizes.kv_heads, sizes.head_dim).transpose(0, 1)
    q, k = rotate(attention.q_norm(q), cos, sin), rotate(attention.k_norm(k), cos, sin)
    for head in range(BACK):
        own = head // (sizes.heads // sizes.kv_heads)
        weights = torch.softmax(q[head, 30] @ k[own, :31].T * sizes.head_dim**-0.5, -1)
        assert weights[30 - (head + 1)].item() > 0.7


def test_the_network_looks_back_only() -> None:
    torch.manual_seed(0)
    sizes = Sizes(vocabulary=64, hidden=32, layers=2, heads=2, kv_heads=1, ffn=48)
    network = Network(sizes, _plain(64))
    ids = torch.randint(0, 64, (1, 12))
    other = ids.clone()
    other[0, 8:] = (other[0, 8:] + 1) % 64
    with torch.no_grad():
        torch.testing.assert_close(network(ids)[:, :8], network(other)[:, :8])


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_the_network_is_the_same_where_it_is_compiled(kv_heads: int) -> None:
    torch.manual_seed(0)
    sizes = Sizes(vocabulary=64, hidden=32, layers=2, heads=2, kv_heads=kv_heads, ffn=48)
    network = Network(sizes, _plain(64))
    weights = list(network.parameters())
    ids, direction = torch.randint(0, 64, (2, 12)), torch.randn(2, 12, 32)
    said, gradients = [], []
    for run in (network, torch.compile(network, backend="eager")):
        said.append(run(ids))
        gradients.append(torch.autograd.grad((said[-1] * direction).sum(), weights))
    torch.testing.assert_close(*said)
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)


def test_exported_weights_are_averaged() -> None:
    ours = {"model.norm.weight": torch.tensor([1.0, 2.0])}
    theirs = {"model.norm.weight": torch.tensor([3.0, 0.0]).bfloat16()}
    found = averaged(ours, theirs, 0.25)["model.norm.weight"]
    torch.testing.assert_close(found, torch.tensor([1.5, 1.5]))
    with pytest.raises(ValueError, match="other sizes"):
        averaged(ours, {"model.norm.weight": torch.zeros(3)}, 0.25)
