"""Write a small vision model with random weights.

    python -m tests.models.tiny_vision OUT_DIR

The architecture is that of Idefics3, because vLLM and transformers run it without torchvision. The
tokenizer is that of tiny_random.py with marks for images. An image is one tile, whatever its size:
`IMAGE_TOKENS` tokens. It may be in messages of all roles.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Tokenizer

from . import tiny_model
from .tiny_random import CHAT_TEMPLATE, HIDDEN, write_model
from .tiny_random import weights as qwen3_weights

SEED = 0
VERSION = 2
"""Of the weights."""
IMAGE, AROUND, GLOBAL = "<image>", "<fake_token_around_image>", "<global-img>"
MARKS = (AROUND, IMAGE, "<end_of_utterance>", GLOBAL)
"""The names are fixed in transformers."""
SIZE, PATCH, SCALE, WIDTH, FFN, LAYERS = 112, 14, 2, 32, 64, 1
FEATURES = (SIZE // PATCH) ** 2 // SCALE**2
"""Embeddings of one image."""
IMAGE_TOKENS = FEATURES + 3
"""With the marks: `AROUND`, `GLOBAL`, the embeddings, `AROUND`."""

READ_TEXT = "{{- part.text }}"
REFUSE_OTHERS = "'Only text can be read, not a part of type '"


def chat_template() -> str:
    """That of tiny_random.py, with images where text is allowed. With the argument
    `leave_out_images` it leaves them out, as a template does that does not expect them."""
    assert CHAT_TEMPLATE.count(READ_TEXT) == CHAT_TEMPLATE.count(REFUSE_OTHERS) == 1
    image = "{%- elif part.type == 'image' %}{{- '' if leave_out_images else '" + IMAGE + "' }}"
    template = CHAT_TEMPLATE.replace(READ_TEXT, f"{READ_TEXT}\n            {image}")
    return template.replace(REFUSE_OTHERS, REFUSE_OTHERS.replace("text", "text and images"))


def tokenizer() -> Tokenizer:
    made = Tokenizer.from_file(str(tiny_model() / "tokenizer.json"))
    made.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
    return made


def files() -> tuple[dict[str, str], int]:
    """The model's files by name, without its weights, and its vocabulary size."""
    base = tiny_model()
    made = tokenizer()
    rows = (made.get_vocab_size() + 63) // 64 * 64
    text: dict[str, Any] = json.loads((base / "config.json").read_text())
    shared = {name: text[name] for name in ("dtype", "transformers_version")}
    ends = {name: text[name] for name in ("eos_token_id", "pad_token_id", "tie_word_embeddings")}
    llama = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": rows}
    config = {
        "architectures": ["Idefics3ForConditionalGeneration"],
        "model_type": "idefics3",
        "text_config": text | llama,
        "vision_config": {
            "model_type": "idefics3_vision",
            "hidden_size": WIDTH,
            "intermediate_size": FFN,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 1,
            "image_size": SIZE,
            "patch_size": PATCH,
        },
        "scale_factor": SCALE,
        "image_token_id": made.token_to_id(IMAGE),
        **shared,
        **ends,
    }
    tokenizer_config = json.loads((base / "tokenizer_config.json").read_text())
    tokenizer_config["additional_special_tokens"] += MARKS
    written = {
        "config.json": config,
        "tokenizer_config.json": tokenizer_config | {"chat_template": chat_template()},
        "processor_config.json": {
            "processor_class": "Idefics3Processor",
            "image_seq_len": FEATURES,
        },
        "preprocessor_config.json": {
            "processor_class": "Idefics3Processor",
            "image_processor_type": "Idefics3ImageProcessor",
            "do_image_splitting": False,
            "size": {"longest_edge": SIZE},
            "max_image_size": {"longest_edge": SIZE},
        },
    }
    return {
        "tokenizer.json": made.to_str(),
        "generation_config.json": (base / "generation_config.json").read_text(),
        **{
            name: json.dumps(value, ensure_ascii=False, indent=1) for name, value in written.items()
        },
    }, rows


def weights(rows: int) -> dict[str, npt.NDArray[np.float32]]:
    """Those of the tower are so large that features depend on each patch, and those after it so
    large that greedy sampling depends on the features."""
    rng = np.random.default_rng(SEED)
    tensors = {
        name.replace("model.", "model.text_model.", 1): tensor
        for name, tensor in qwen3_weights(rows, SEED).items()
        if "q_norm" not in name and "k_norm" not in name
    }
    for name, tensor in tensors.items():
        if "o_proj" in name:
            tensor *= 8  # what a token attends to decides what follows, not the token itself

    def table(name: str, *shape: int, scale: float = 1.0) -> None:
        tensors[name] = (scale * rng.standard_normal(shape)).astype(np.float32)

    def linear(name: str, out: int, inputs: int) -> None:
        table(f"{name}.weight", out, inputs, scale=inputs**-0.5)
        tensors[f"{name}.bias"] = np.zeros(out, np.float32)

    def norm(name: str) -> None:
        tensors[f"{name}.weight"] = np.ones(WIDTH, np.float32)
        tensors[f"{name}.bias"] = np.zeros(WIDTH, np.float32)

    tower, embeddings = "model.vision_model", "model.vision_model.embeddings"
    table(f"{embeddings}.patch_embedding.weight", WIDTH, 3, PATCH, PATCH, scale=1 / PATCH)
    tensors[f"{embeddings}.patch_embedding.bias"] = np.zeros(WIDTH, np.float32)
    table(f"{embeddings}.position_embedding.weight", (SIZE // PATCH) ** 2, WIDTH)
    for layer in range(LAYERS):
        block = f"{tower}.encoder.layers.{layer}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linear(f"{block}.self_attn.{part}", WIDTH, WIDTH)
        norm(f"{block}.layer_norm1")
        norm(f"{block}.layer_norm2")
        linear(f"{block}.mlp.fc1", FFN, WIDTH)
        linear(f"{block}.mlp.fc2", WIDTH, FFN)
    norm(f"{tower}.post_layernorm")
    shuffled = WIDTH * SCALE**2
    table("model.connector.modality_projection.proj.weight", HIDDEN, shuffled, scale=0.1)
    return tensors


def build(out: Path) -> None:
    """Write the model to the directory `out`. Does nothing if it is up to date. Raises
    FileExistsError if `out` has other files."""
    texts, rows = files()
    write_model(out, texts, lambda: weights(rows), [rows, SEED, VERSION])


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    try:
        build(arguments.out.resolve())
    except FileExistsError as error:
        sys.exit(str(error))
    print(f"{arguments.out} is up to date")


if __name__ == "__main__":
    main()
