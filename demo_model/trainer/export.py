"""Writes the trained model as a directory that vLLM serves: `python -m trainer.export RUN OUT`."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from .network import Network, Sizes
from .tokenizer import SPECIAL

HERE = Path(__file__).parent
SHARE = 0.4
"""Of the weights before in an average; docs/decisions/0030-demo-model.md has the measurement."""


def export(run: Path, out: Path, before: Path | None = None, share: float = SHARE) -> None:
    """`run` holds checkpoint.pt and tokenizer.json. The new card has no figures and no history yet.

    `before`: an exported model of the same sizes and tokenizer, of which the weights are this `share`
    (model soups, arXiv:2203.05482)."""
    out.mkdir(parents=True, exist_ok=True)
    network, tokenizer = load(run)
    sizes = network.sizes
    end, pad = tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")
    if end is None or pad is None:
        raise ValueError("the tokenizer has no <|im_end|> or no <|endoftext|>")
    files = {
        "config.json": config(sizes, end, pad),
        "generation_config.json": {"eos_token_id": [end, pad], "pad_token_id": pad},
        "tokenizer_config.json": {
            # Not Qwen2Tokenizer, whose loader would put its own pre-tokenizer in place of ours.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "additional_special_tokens": list(SPECIAL[1:]),
            "clean_up_tokenization_spaces": False,
            "model_max_length": sizes.context,
            "chat_template": template(),
        },
    }
    for name, content in files.items():
        (out / name).write_text(
            json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
    shutil.copyfile(run / "tokenizer.json", out / "tokenizer.json")
    shutil.copyfile(HERE / "card.md", out / "README.md")
    tensors = network.named_tensors()
    if before is not None:
        tensors = averaged(tensors, load_file(before / "model.safetensors"), share)
    tensors = {name: tensor.bfloat16().contiguous() for name, tensor in tensors.items()}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)


def averaged(
    tensors: dict[str, torch.Tensor], others: dict[str, torch.Tensor], share: float
) -> dict[str, torch.Tensor]:
    """In single precision; `share`: of the others."""
    shapes, theirs = ({name: t.shape for name, t in each.items()} for each in (tensors, others))
    if shapes != theirs:
        raise ValueError("weights of other sizes cannot be averaged with these")
    return {name: torch.lerp(t.float(), others[name].float(), share) for name, t in tensors.items()}


def template() -> str:
    return (HERE / "template.jinja").read_text(encoding="utf-8").strip()


def config(sizes: Sizes, end: int, pad: int) -> dict[str, object]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        # Without it transformers takes any large local vocabulary for a broken Mistral one.
        "transformers_version": "5.0.0",
        "dtype": "bfloat16",
        "vocab_size": sizes.vocabulary,
        "hidden_size": sizes.hidden,
        "intermediate_size": sizes.ffn,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": sizes.context,
        "rms_norm_eps": sizes.epsilon,
        "rope_parameters": {"rope_type": "default", "rope_theta": sizes.theta},
        "attention_bias": False,
        "tie_word_embeddings": True,
        "eos_token_id": end,
        "pad_token_id": pad,
    }


def load(run: Path) -> tuple[Network, Tokenizer]:
    """The network of a run, as it was saved last."""
    tokenizer = Tokenizer.from_file(str(run / "tokenizer.json"))
    network = Network.of(tokenizer)
    network.load_state_dict(torch.load(run / "checkpoint.pt", weights_only=True))
    return network.eval(), tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--before", type=Path, help="average with this exported model")
    parser.add_argument("--share", type=float, default=SHARE, help="of it in the average")
    arguments = parser.parse_args()
    export(arguments.run, arguments.out, arguments.before, arguments.share)
    print(f"made {arguments.out}")


if __name__ == "__main__":
    main()
