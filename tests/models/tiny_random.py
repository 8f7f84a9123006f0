"""Write a small Qwen3 model with random weights: what tests and benchmarks serve.

    python -m tests.models.tiny_random OUT_DIR [--tokenizer DIR] [--seed N]

Without `--tokenizer` its tokenizer is a byte-level BPE of 8,192 entries, whose merges were trained
once on generated sentences, calls and schemas (tiny_merges.txt); with it, the model is built over
that tokenizer (`tokenizer.json`, gzipped or not, and `tokenizer_config.json`), padded to Qwen3's
151,936 rows. Nothing is downloaded, and nothing is done where OUT_DIR already holds the same model.
"""

import argparse
import gzip
import hashlib
import json
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

FINGERPRINT = "fingerprint.txt"
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, FFN = 64, 2, 2, 1, 32, 128
"""vLLM's CPU attention needs a head_dim of at least 32."""
CONTEXT = 8192
TINY_VOCABULARY, QWEN3_ROWS = 8192, 151_936
HERE = Path(__file__).parent
MERGES = HERE / "tiny_merges.txt"
TEMPLATES = {
    name: f"\n{text}"
    for name, text in tomllib.loads((HERE / "templates.toml").read_text(encoding="utf-8")).items()
}
CHAT_TEMPLATE = TEMPLATES["tiny"].strip()


def words(text: str) -> list[str]:
    return text.split()


# In Qwen3's order. The first 14 are special (skipped on decoding), the rest are ordinary text.
SPECIAL = words("""
<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|>
<|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|>
<|image_pad|> <|video_pad|>
""")
MARKS = words("""
<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|>
<|file_sep|> <tool_response> </tool_response> <think> </think>
""")

# A word takes one leading space or mark with it; digits stand alone; marks run together.
WORDS = (
    r"(?: |[^\s\p{L}\p{M}\p{N}])?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"
)
Weights = Mapping[str, npt.NDArray[np.float32]]


def tiny_tokenizer() -> Tokenizer:
    """Byte-level BPE; the added tokens come after it and fill the vocabulary exactly."""
    lines = MERGES.read_text(encoding="utf-8").splitlines()
    merges = [(first, second) for first, _, second in (line.partition(" ") for line in lines)]
    texts = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges)]
    tokenizer = Tokenizer(models.BPE({text: at for at, text in enumerate(texts)}, merges))
    # A word of one script's bytes must not be cut: split first, map to bytes afterwards.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in MARKS])
    assert tokenizer.get_vocab_size() == TINY_VOCABULARY
    return tokenizer


def tokenizer_files(source: Path | None) -> dict[str, str]:
    """`tokenizer.json` and `tokenizer_config.json`, the tiny ones or those of a directory."""
    if source is None:
        config = {
            # Not Qwen2Tokenizer, whose loader would put its own pre-tokenizer in place of ours.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "additional_special_tokens": SPECIAL[1:],
            "clean_up_tokenization_spaces": False,
            "model_max_length": CONTEXT,
            "chat_template": CHAT_TEMPLATE,
        }
        return {
            "tokenizer.json": tiny_tokenizer().to_str(),
            "tokenizer_config.json": json.dumps(config, ensure_ascii=False, indent=1),
        }
    packed, plain = source / "tokenizer.json.gz", source / "tokenizer.json"
    text = gzip.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()
    return {
        "tokenizer.json": text.decode(),
        "tokenizer_config.json": (source / "tokenizer_config.json").read_text(),
    }


def weights(rows: int, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """Small enough (0.02) that logits are nearly uniform: a logit bias then decides what ends."""
    rng = np.random.default_rng(seed)

    def matrix(*shape: int) -> npt.NDArray[np.float32]:
        return (0.02 * rng.standard_normal(shape)).astype(np.float32)

    def ones(size: int) -> npt.NDArray[np.float32]:
        return np.ones(size, np.float32)

    tensors = {"model.embed_tokens.weight": matrix(rows, HIDDEN), "model.norm.weight": ones(HIDDEN)}
    for layer in range(LAYERS):
        block = {
            "input_layernorm": ones(HIDDEN),
            "post_attention_layernorm": ones(HIDDEN),
            "self_attn.q_proj": matrix(HEADS * HEAD_DIM, HIDDEN),
            "self_attn.k_proj": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.v_proj": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.o_proj": matrix(HIDDEN, HEADS * HEAD_DIM),
            "self_attn.q_norm": ones(HEAD_DIM),
            "self_attn.k_norm": ones(HEAD_DIM),
            "mlp.gate_proj": matrix(FFN, HIDDEN),
            "mlp.up_proj": matrix(FFN, HIDDEN),
            "mlp.down_proj": matrix(HIDDEN, FFN),
        }
        tensors |= {f"model.layers.{layer}.{name}.weight": t for name, t in block.items()}
    return tensors


def write_model(
    out: Path, texts: Mapping[str, str], weights: Callable[[], Weights], version: object
) -> None:
    """Write a model to the directory `out`, which is created or replaced. `texts`: its files by
    name, without the weights. `version`: of the weights; with the texts, it determines whether the
    model is up to date. Raises FileExistsError if `out` has other files."""
    mark = hashlib.sha256(json.dumps([dict(texts), version]).encode()).hexdigest()
    fingerprint = out / FINGERPRINT
    if fingerprint.exists() and fingerprint.read_text() == mark:
        return
    if not fingerprint.exists() and out.exists() and any(out.iterdir()):
        raise FileExistsError(f"{out} has other files. Use another directory.")
    out.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: other processes never see half a model.
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        made = Path(temporary) / "model"
        made.mkdir()
        for name, text in texts.items():
            (made / name).write_text(text)
        save_file(dict(weights()), made / "model.safetensors", metadata={"format": "pt"})
        (made / "model.safetensors").chmod(0o644)
        (made / FINGERPRINT).write_text(mark)
        if out.exists():
            shutil.rmtree(out)
        made.replace(out)


def rows_of(source: Path | None) -> int:
    """Of the embeddings."""
    return TINY_VOCABULARY if source is None else QWEN3_ROWS


def model_files(source: Path | None, shapes: Mapping[str, object]) -> dict[str, str]:
    """The texts of all files but the weights. `source`: the directory of the tokenizer to build
    over. `shapes` take the place of the tiny ones in config.json."""
    files = tokenizer_files(source)
    tokenizer = Tokenizer.from_str(files["tokenizer.json"])
    rows = rows_of(source)
    if tokenizer.get_vocab_size() > rows:
        sys.exit(f"the tokenizer has {tokenizer.get_vocab_size()} tokens, over {rows}")
    end, pad = tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")
    if end is None or pad is None:
        sys.exit("the tokenizer has no <|im_end|> or no <|endoftext|>")
    config: dict[str, object] = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        # Without it transformers takes any large local vocabulary for a broken Mistral one.
        "transformers_version": "5.0.0",
        "dtype": "float32",
        "vocab_size": rows,
        "hidden_size": HIDDEN,
        "intermediate_size": FFN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
        "attention_bias": False,
        "tie_word_embeddings": True,
        "eos_token_id": end,
        "pad_token_id": pad,
    }
    generation = {"eos_token_id": [end, pad], "pad_token_id": pad}
    files["config.json"] = json.dumps({**config, **shapes}, indent=1)
    files["generation_config.json"] = json.dumps(generation, indent=1)
    return files


def build(out: Path, source: Path | None, seed: int) -> None:
    """Raises FileExistsError as `write_model` does."""
    files, rows = model_files(source, {}), rows_of(source)
    write_model(out, files, lambda: weights(rows, seed), [rows, seed])


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="directory of the tokenizer to build over")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        build(arguments.out.resolve(), arguments.tokenizer, arguments.seed)
    except FileExistsError as error:
        sys.exit(str(error))
    print(f"{arguments.out} is up to date")


if __name__ == "__main__":
    main()
